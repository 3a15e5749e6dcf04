"""The tests of behavior that do not run against a cluster, with the reason for each. A test is named as pytest names
it, without the folder; a name stands for all that begin with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from tests.load import LONG

NO_SERVER = "it needs no server, or starts one as a command of its own"
STARTS = "it is about the start of one server: its command line, its settings, its first words and its exit"
ENDS = "it ends, kills or freezes one server; tests/cluster and `python -m benchmarks.take_over` do so to nodes"
ONE_PROCESS = "it changes a constant of the one process that serves it"
LIMITS = "it measures the memory, descriptors or connections of one process, or uses them up"
OF_ONE_NODE = (
    "it reads the metrics, the log lines or the readiness that one process has, which several nodes share here"
)
ONCE_A_SECOND = (
    "it expects a server to know at each moment how many runs wait; nodes count them once a second, and accept a"
    " compaction however many there are"
)
ALONE = "it is about a server that is not a node"
NODES_OF_ITS_OWN = "it starts nodes, a broker or a Postgres server of its own"
LEARNED = (
    "it expects the next run, or an estimate by an API node, to use what a run has learned about its model, which other"
    " nodes know some seconds later"
)
LOGGED_IN = (
    "it expects a cookie to be named after the port of one server, or a logout on one server to take effect on another"
    " in less than the five seconds for which that one may know the login"
)
FOLLOWS_AT_ONCE = (
    "it expects an order of two things that nodes do at the same moment, such as the model's end and the arrival of a"
    " cancel or a change at the worker, some milliseconds after the response to it, or of two runs in the line"
)

OUTLIVES = "it expects a command to outlive its run, which ends it where another machine may have the session next"

STARTS_AHEAD = "it expects a sandbox to be started ahead, which no node does for a session that may continue elsewhere"

EXCLUDED: Mapping[str, Sequence[str]] = {
    ALONE: ("test_quota.py::test_a_server_alone_lists_no_nodes",),
    ONE_PROCESS: ("test_changes.py::test_a_server_without_git_makes_forks_without_checkpoints",),
    OUTLIVES: ("test_background_commands.py::test_a_command_ends_with_a_request_or_a_cancelled_run",),
    STARTS_AHEAD: ("test_first_use.py::test_a_sandbox_starts_before_the_models_first_byte",),
    NO_SERVER: (
        "test_access.py::test_loopback_needs_no_key",
        "test_access.py::test_without_keys_the_server_binds_only_loopback",
        "test_eval.py",
        "test_fuzz.py::test_a_violation_of_the_document_is_a_crash",
        "test_fuzz.py::test_hostile_input_crashes_nothing",
        "test_mcp_command.py::test_standard_output_has_messages_alone_and_sigterm_ends_the_command",
        "test_operations_page.py::test_every_state_of_a_part_is_explained",
        "test_page.py::test_the_modules_insert_no_markup",
        "test_page.py::test_the_page_has_no_inline_code",
        "test_recorded_histories.py",
        "test_wheel.py",
    ),
    STARTS: (
        "test_allowed_hosts.py::test_local_unsafe_refuses_a_list",
        "test_allowed_hosts.py::test_no_way_leads_around_the_list",
        "test_allowed_hosts.py::test_packages_are_installed_and_repositories_cloned",
        "test_allowed_hosts.py::test_the_attempts_were_real",
        "test_allowed_hosts.py::test_the_web_only_saw_requests_for_allowed_hosts",
        "test_cli.py::test_a_closed_pipe_ends_a_command_with_its_own_server",
        "test_cli.py::test_a_data_directory_that_is_in_use_is_left_alone",
        "test_cli.py::test_a_second_ctrl_c_quits_at_once",
        "test_cli.py::test_a_second_server_on_one_data_directory_is_refused",
        "test_cli.py::test_a_startup_error_of_the_commands_server_is_one_sentence",
        "test_cli.py::test_program_options_are_not_server_options",
        "test_cli.py::test_the_example_in_the_banner_works_verbatim",
        "test_cli.py::test_the_module_alone_starts_the_server",
        "test_cli.py::test_the_server_of_the_same_data_directory_is_found",
        "test_cli.py::test_the_server_reports_what_it_found_and_how_to_try_it",
        "test_cli.py::test_without_a_server_the_command_starts_one",
        "test_cli_approvals.py::test_a_command_with_its_own_server_prints_its_address",
        "test_secrets.py",
        "test_start.py",
    ),
    ENDS: (
        "test_allowed_hosts.py::test_a_killed_server_leaves_no_way_open",
        "test_approval_restarts.py",
        "test_background_commands.py::test_a_command_of_a_killed_server_is_reported_as_interrupted",
        "test_background_compaction.py::test_a_background_summary_ends_with_its_server",
        "test_client_tools.py::test_calls_wait_through_a_restart",
        "test_compaction_recovery.py::test_a_compaction_survives_a_kill",
        "test_sources.py::test_a_kill_during_a_clone_loses_nothing",
        "test_compaction_recovery.py::test_a_run_continues_after_its_server_ended_during_an_automatic_round",
        "test_compaction_recovery.py::test_a_running_session_continues_after_its_server_ended_before_or_during_a_round",
        "test_compaction_recovery.py::test_an_idle_session_is_unchanged_after_its_server_ended_during_a_round",
        "test_compaction_recovery.py::test_the_cost_of_a_round_before_its_server_ended_is_kept",
        "test_fencing.py",
        "test_interrupted_calls.py::test_a_call_that_printed_nothing_names_nothing_to_recall",
        "test_interrupted_calls.py::test_a_restart_names_the_calls_that_its_end_cut_off",
        "test_interrupted_calls.py::test_a_server_may_park_interrupted_runs",
        "test_interrupted_calls.py::test_a_server_told_to_shut_down_ends_its_streams_properly",
        "test_interrupted_calls.py::test_output_before_a_kill_is_shown_and_can_be_recalled",
        "test_kills.py",
        "test_kills_together.py",
        "test_trace_context.py",
        "test_mcp.py::test_a_call_that_is_out_at_a_kill_is_interrupted_and_not_repeated",
        "test_never_stuck.py",
        "test_recovery.py",
        "test_responses.py::test_a_killed_server_continues_with_its_reasoning",
        "test_retention.py::test_everything_is_kept_unless_a_setting_says_so",
        "test_shutdown.py",
        "test_changes.py::test_a_restore_that_is_killed_is_completed",
        "test_soak.py",
        "test_subagents.py::test_a_parked_run_shows_the_end_of_its_sub_agents",
        "test_subagents.py::test_after_a_kill_each_sub_agent_continues_and_answers_once",
        "test_tracing.py::test_the_log_of_a_run_and_of_the_end",
        "test_webhooks.py::test_nothing_is_lost_while_the_receiver_fails_and_the_server_is_killed",
    ),
    LIMITS: (
        "test_connections.py",
        "test_freed.py",
        "test_large_bodies.py",
        "test_large_histories.py",
        "test_lost_logs.py",
        "test_many_at_once.py",
        "test_many_downloads.py",
        "test_resource_attacks.py",
        "test_slow_reader.py",
        "test_stalled_readers.py",
    ),
    OF_ONE_NODE: (
        "test_allowed_hosts.py::test_refusals_are_counted",
        "test_operations_page.py",
        "test_outages.py::test_a_provider_that_answers_with_errors_is_failing",
        "test_sources.py::test_a_secret_opens_the_repository_and_is_nowhere_afterward",
        "test_recount.py::test_the_log_has_a_line_when_a_round_begins_and_when_it_ends",
        "test_tracing.py::test_the_spans_of_a_run",
    ),
    ONCE_A_SECOND: (
        "test_pressure.py::test_a_manual_compaction_takes_a_slot_in_the_queue",
        "test_pressure.py::test_runs_beyond_the_limit_wait_in_order",
    ),
    LEARNED: (
        "test_refusals.py::test_a_refusal_that_nobody_listed_is_found_out_once",
        "test_effort.py::test_a_model_without_efforts_is_called_without_one",
        "test_effort.py::test_a_refused_effort_is_replaced_by_the_nearest_accepted_one",
        "test_images.py::test_a_model_that_refuses_images_gets_texts[fake-anthropic/model]",
        "test_images.py::test_a_model_that_refuses_images_gets_texts[fake-openai/model]",
        "test_images.py::test_a_model_that_refuses_images_gets_texts[fake-responses/model]",
        "test_insistent_models.py::test_a_rule_that_is_stated_inside_a_stream_is_learned[mistral]",
        "test_insistent_models.py::test_each_rule_costs_one_request_ever[mistral-",
        "test_manual_compaction.py::test_a_dry_run_reports_what_a_round_then_does",
        "test_manual_reports.py::test_a_dry_run_and_a_round_read_the_same_notes",
        "test_manual_reports.py::test_a_revert_during_a_step_counts_in_the_size_after_it",
        "test_manual_reports.py::test_a_round_reports_the_size_of_the_whole_context_from_its_start[True]",
        "test_manual_reports.py::test_no_summary_is_requested_that_would_save_nothing",
        "test_messages_that_cannot_fit.py::test_an_assumed_window_refuses_nothing",
        "test_overflow.py::test_a_refusal_of_a_summarizer_teaches_its_window",
        "test_overflow.py::test_every_shape_is_recovered_from",
        "test_responses.py::test_a_missing_item_is_not_a_missing_path",
        "test_responses.py::test_a_model_is_switched_to_the_other_endpoint_once",
        "test_server_windows.py::test_queried_windows_show_in_the_list_of_models",
        "test_server_windows.py::test_the_first_request_fits_the_window_that_the_server_reports[vllm]",
        "test_system_text.py::test_a_model_chosen_during_a_round_uses_its_own_estimates",
    ),
    LOGGED_IN: (
        "test_login.py::test_a_logout_takes_effect_at_once",
        "test_login.py::test_a_response_to_a_cookie_is_private",
        "test_login.py::test_a_stream_ends_with_its_login",
        "test_login.py::test_a_valid_key_starts_a_login",
        "test_login.py::test_only_the_servers_own_cookie_counts",
    ),
    NODES_OF_ITS_OWN: (
        "test_broker.py",
        "test_cluster_script.py",
        "test_moving_workspaces.py",
        "test_postgres.py",
    ),
    FOLLOWS_AT_ONCE: (
        "test_compaction_order.py::test_until_idle_waits_for_a_round_of_an_idle_session[cancelled]",
        "test_queue.py::test_a_message_in_any_phase_is_delivered_exactly_once[interrupt]",
        "test_quota.py::test_keys_take_turns_in_the_line",
        "test_system_text.py::test_a_refusal_from_a_previous_model_compacts_nothing",
    ),
}


ALL_CASES = (
    "test_approvals.py",
    "test_bad_input.py::test_a_missing_session",
    "test_cancel_places.py",
    "test_client_tools.py",
    "test_compaction_order.py",
    "test_limits.py::test_max_seconds_ends_model_and_command",
    "test_main_job.py",
    "test_order_property.py",
    "test_outages.py",
    "test_overflow.py::test_a_larger_window_reported_later_wins",
    "test_queue.py",
    "test_streams.py::test_a_deleted_session",
    "test_streams.py::test_until_idle",
    "test_streams.py::test_where_to_start",
)
"""Tests whose cases differ in what nodes do for each other, such as what ends a wait, or in what is read from Postgres,
or which take each sandbox and wire format through the nodes. Of the default cases of each other test, only the first
one runs against a cluster: wire formats, sandboxes, policies and invalid values differ in what one node does, and a
server alone, which runs all cases, does it with the same code. With PALIMPSEST_TEST_LONG=1, all cases run against a
cluster too."""


def excluded(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Those of the tests that do not run against a cluster."""
    names = tuple(name for group in EXCLUDED.values() for name in group)
    first: dict[str, pytest.Item] = {}

    def is_a_further_case(item: pytest.Item) -> bool:
        return first.setdefault(item.nodeid.partition("[")[0], item) != item

    left_out = []
    for item in sorted(items, key=_place):
        if _name(item).startswith(names) or (_one_case_is_enough(item) and is_a_further_case(item)):
            left_out.append(item)
    return left_out


def _name(item: pytest.Item) -> str:
    return f"{item.path.name}::{item.name}"


def _one_case_is_enough(item: pytest.Item) -> bool:
    return not (LONG or item.get_closest_marker("extended") or _name(item).startswith(ALL_CASES))


def _place(item: pytest.Item) -> tuple[int, ...]:
    """Where the case is among those of its test."""
    call = getattr(item, "callspec", None)
    return () if call is None else tuple(call.indices.values())
