# The server. Commands of the model do not run in this container but in sandboxes that it asks the Docker Engine for,
# so it needs the Engine's socket; see docker-compose.yml.
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY evals evals
COPY app app
COPY migrations migrations
RUN python -m venv /opt/palimpsest \
    && python -m pip wheel --quiet --no-cache-dir --no-deps --wheel-dir /wheels . \
    && /opt/palimpsest/bin/python -m pip install --quiet --no-cache-dir "$(ls /wheels/*.whl)[cluster]"

FROM python:3.12-slim
LABEL org.opencontainers.image.title="Palimpsest" \
      org.opencontainers.image.licenses="Apache-2.0"
# For clones, and for checkpoints of workspaces.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git openssh-client \
    && rm -rf /var/lib/apt/lists/*
# A fixed id, so that a volume fits a rebuilt image. The Engine's socket belongs to a group of the host:
# whoever runs the container adds that group (`--group-add`, `group_add`).
RUN groupadd --gid 10001 palimpsest \
    && useradd --uid 10001 --gid palimpsest --no-create-home --home-dir /data --shell /usr/sbin/nologin palimpsest \
    && install --directory --mode 0700 --owner palimpsest --group palimpsest /data
COPY --from=build /opt/palimpsest /opt/palimpsest
ENV PATH=/opt/palimpsest/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PALIMPSEST_HOST=0.0.0.0 \
    PALIMPSEST_PORT=8000 \
    PALIMPSEST_DATA_DIR=/data
USER palimpsest
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f\"http://127.0.0.1:{os.environ['PALIMPSEST_PORT']}/healthz\", timeout=4)"]
# On this address the server refuses to start without PALIMPSEST_API_KEYS.
CMD ["palimpsest", "serve"]
