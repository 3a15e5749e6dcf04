#!/bin/sh
# Creates Temporal's databases and brings their schemas to the version of this image. Run before each start of the server.
set -eu
schemas=/etc/temporal/schema/postgresql/v12
for pair in temporal:temporal temporal_visibility:visibility; do
    database=${pair%%:*}
    # These two fail if they have been done before; the last one then says whether the database is sound.
    temporal-sql-tool --db "$database" create || true
    temporal-sql-tool --db "$database" setup-schema -v 0.0 || true
    temporal-sql-tool --db "$database" update-schema -d "$schemas/${pair#*:}/versioned"
done
