"""The section of AWS Neuron (Inferentia and Trainium)."""

from vgpu_operator.model.vendor_settings import section


class AwsNeuronSettings(section.Section):
    """AWS Neuron's names, as in HAMi's device configuration (``awsneuron``)."""

    resource_count_name: section.OptionalResourceName = "aws.amazon.com/neuron"
    """Resource that counts devices."""
    resource_core_name: section.OptionalResourceName = "aws.amazon.com/neuroncore"
    """Resource that counts NeuronCores; a device has two, on Inferentia 1 four."""
