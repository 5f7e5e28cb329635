"""The end of the webhook's certificate, for alerts."""

import prometheus_client as prom

from vgpu_operator.metrics import instruments

NAME = "vgpu_webhook_certificate_expiry_timestamp_seconds"


def test_without_a_certificate_there_is_no_sample_that_an_alert_could_take_for_1970() -> None:
    made = instruments.Instruments()

    assert made.registry.get_sample_value(NAME) is None
    assert f"# TYPE {NAME} gauge" in prom.generate_latest(made.registry).decode()


def test_its_end_is_in_seconds_since_1970() -> None:
    made = instruments.Instruments()

    made.set_certificate_end(1_790_000_000)

    assert made.registry.get_sample_value(NAME) == 1_790_000_000
