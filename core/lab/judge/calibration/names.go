package calibration

// The names of the experiments.
const (
	ExperimentDelay        = "delay"
	ExperimentHalf         = "half"
	ExperimentExponential  = "exponential"
	ExperimentBimodal      = "bimodal"
	ExperimentRate         = "rate"
	ExperimentStall        = "stall"
	ExperimentObserver     = "observer"
	ExperimentSelf         = "self"
	ExperimentMemory       = "power memory"
	ExperimentSockets      = "power sockets"
	ExperimentMemoryLoaded = "power memory loaded"
	ExperimentClients      = "clients"
)

// The experiments of power until 0.8.0 added 2 us to each operation. Their burns are recovered, but
// what comparisons find of them says nothing of an operation without.
const (
	paddedPower       = "power"
	paddedPowerLoaded = "power loaded"
)

// The quartiles of the latencies of a window of [ExperimentHalf]; the document has no histograms.
const (
	LowerQuartile = "latency_p25"
	UpperQuartile = "latency_p75"
)
