package calibrate

// The names of the experiments.
const (
	ExperimentDelay       = "delay"
	ExperimentHalf        = "half"
	ExperimentExponential = "exponential"
	ExperimentBimodal     = "bimodal"
	ExperimentRate        = "rate"
	ExperimentStall       = "stall"
	ExperimentObserver    = "observer"
	ExperimentSelf        = "self"
	ExperimentPower       = "power"
	ExperimentPowerLoaded = "power loaded"
	ExperimentClients     = "clients"
)
