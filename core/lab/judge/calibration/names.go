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

// The quartiles of the latencies of a window of [ExperimentHalf]; the document has no histograms.
const (
	LowerQuartile = "latency_p25"
	UpperQuartile = "latency_p75"
)
