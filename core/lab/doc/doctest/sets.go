package doctest

// These committed sets supply the figures of README, the documents and the picture. machine has
// those of one revision, as results/README.md records them.
const (
	machine = "results/v0.9.0/amd-epyc-2core-vm"

	// Standard is the set of `transportbench bench`.
	Standard = machine
	// Latency is the set of `transportbench sweep latency`.
	Latency = machine + "/latency"
	// Services is the set of `transportbench sweep services`.
	Services = machine + "/services"
	// Hosts has what scripts/bench-hosts.sh prints.
	Hosts = machine + "/hosts.jsonl"
	// Curves is the set of `transportbench sweep curves`.
	Curves = machine + "/curves"
	// Peers is the set of `make bench-peers`.
	Peers = machine + "/peers"
)
