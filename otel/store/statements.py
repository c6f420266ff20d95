"""The SQL of the SQLite store.

A list travels as one JSON value, so every statement is a constant and nothing is ever pasted into one.
"""

from __future__ import annotations

from typing import Final

INSERT_HOP: Final = """
    INSERT INTO hops (trace_id, span_id, request_id, received_ns, body) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
UPSERT_TRACE: Final = """
    INSERT INTO traces (trace_id, received_ns, has_abnormal_hop) VALUES (?, ?, ?)
    ON CONFLICT (trace_id) DO UPDATE SET has_abnormal_hop = has_abnormal_hop OR excluded.has_abnormal_hop
"""
NEWEST_OF_KEY: Final = "SELECT hop_id FROM hop_keys WHERE key = ? ORDER BY hop_id DESC LIMIT ?"
KEYS_OF_HOPS: Final = "SELECT DISTINCT key FROM hop_keys WHERE hop_id IN (SELECT value FROM json_each(?))"
BODY: Final = "SELECT span_id, body FROM hops WHERE id = ?"
LATEST_REQUESTS: Final = """
    SELECT request_id FROM hops WHERE received_ns >= (SELECT max(received_ns) FROM hops) - ?
    GROUP BY request_id ORDER BY max(id) DESC LIMIT ?
"""
REPLACED: Final = """
    SELECT id FROM verdicts
    WHERE trace_id IN (SELECT value FROM json_each(?)) AND request_key IN (SELECT value FROM json_each(?))
"""
INSERT_VERDICT: Final = """
    INSERT INTO verdicts (
        trace_id, request_id, request_key, ids, judged_ns, at_ns, model, status, cause, hop, owner, wait, gap_s,
        confidence, is_open, is_abnormal, sentence, answer
    ) VALUES (
        :trace_id, :request_id, :request_key, :ids, :judged_ns, :at_ns, :model, :status, :cause, :hop, :owner, :wait,
        :gap_s, :confidence, :is_open, :is_abnormal, :sentence, :answer
    )
"""
MARK_TRACES: Final = """
    UPDATE traces SET has_abnormal_verdict = EXISTS (
        SELECT 1 FROM verdicts JOIN verdict_keys ON verdict_id = id WHERE key = traces.trace_id AND is_abnormal
    ) WHERE trace_id IN (SELECT value FROM json_each(?))
"""
VERDICT_OF_KEY: Final = """
    SELECT * FROM verdicts WHERE id IN (SELECT verdict_id FROM verdict_keys WHERE key = ?)
    ORDER BY at_ns DESC, trace_id DESC, request_key DESC LIMIT 1
"""
STALLS: Final = """
    SELECT * FROM verdicts
    WHERE is_abnormal AND at_ns >= :since_ns AND gap_s >= :min_gap_s
        AND (:model IS NULL OR model = :model) AND (:hop IS NULL OR hop = :hop) AND (:cause IS NULL OR cause = :cause)
        AND (:at_ns IS NULL OR (at_ns, trace_id, request_key) < (:at_ns, :trace_id, :request_key))
    ORDER BY at_ns DESC, trace_id DESC, request_key DESC LIMIT :limit
"""
OLDEST_TRACE: Final = """
    SELECT received_ns, trace_id FROM traces
    WHERE (has_abnormal_hop OR has_abnormal_verdict) = ? ORDER BY received_ns, trace_id LIMIT 1
"""
OLDEST_VERDICT: Final = "SELECT judged_ns, id FROM verdicts ORDER BY judged_ns, trace_id, request_key LIMIT 1"
OLDEST_OF_TRACE: Final = "SELECT id FROM hops WHERE trace_id = ? ORDER BY id LIMIT ?"
FORGET_TRACE: Final = """
    DELETE FROM traces WHERE trace_id = :trace_id AND NOT EXISTS (SELECT 1 FROM hops WHERE trace_id = :trace_id)
"""
DELETE_HOPS: Final = (
    "DELETE FROM hop_keys WHERE hop_id IN (SELECT value FROM json_each(?))",
    "DELETE FROM hops WHERE id IN (SELECT value FROM json_each(?))",
)
DELETE_VERDICTS: Final = (
    "DELETE FROM verdict_keys WHERE verdict_id IN (SELECT value FROM json_each(?))",
    "DELETE FROM verdicts WHERE id IN (SELECT value FROM json_each(?))",
)
