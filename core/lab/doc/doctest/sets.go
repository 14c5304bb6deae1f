package doctest

// These committed sets supply the figures of README, the documents and the picture.
const (
	// Standard is the set of `transportbench bench`.
	Standard = "results/v0.9.0/amd-epyc-2core-vm"
	// Latency is the set of `transportbench sweep latency`.
	Latency = "results/v0.9.0/amd-epyc-2core-vm/latency"
	// Services is the set of `transportbench sweep services`.
	Services = "results/v0.9.0/amd-epyc-2core-vm/services"
)
