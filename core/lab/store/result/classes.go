package result

import (
	"slices"
	"strings"

	"transportbench/core/base/config"
)

// The kinds of a class's metrics: with all classes at once, alone, and the former over the latter.
const (
	ClassTogether = ""
	ClassAlone    = "alone"
	ClassSlowdown = "slowdown"
)

// SLOAttainment is the metric of a class that has an objective.
const SLOAttainment = "slo_attainment"

// ClassMetrics are the metrics of a class of traffic.
var ClassMetrics = []string{Throughput, Goodput, LatencyP50, LatencyP99, ResponseP50, ResponseP99,
	SLOAttainment}

// ClassMetric returns the name of a class's metric: "rpc.latency_p99", "rpc.alone.latency_p99" or
// "rpc.slowdown.latency_p99".
func ClassMetric(class, kind, metric string) string {
	if kind != ClassTogether {
		metric = kind + "." + metric
	}
	return class + "." + metric
}

// ofClass takes the name of a class's metric apart.
func ofClass(name string) (class, kind, metric string, ok bool) {
	class, metric, ok = strings.Cut(name, ".")
	if before, after, more := strings.Cut(metric, "."); more {
		kind, metric = before, after
	}
	return class, kind, metric, ok
}

// ClassFigures are one metric of a class of traffic: with all classes at once, alone, and the
// former over the latter. What was not measured is nil.
type ClassFigures struct {
	Class     string  `json:"class"`
	Metric    string  `json:"metric"`
	Together  *Metric `json:"together,omitempty"`
	Alone     *Metric `json:"alone,omitempty"`
	Slowdown  *Metric `json:"slowdown,omitempty"`
	Objective string  `json:"objective,omitempty"` // of [SLOAttainment]
}

// FiguresOf returns the metrics of classes that were measured, by class. summary returns a metric
// by its name.
func FiguresOf(classes config.Classes, summary func(name string) (Metric, bool)) (
	list []ClassFigures) {
	for _, class := range classes {
		for _, metric := range ClassMetrics {
			of := func(kind string) *Metric {
				if m, known := summary(ClassMetric(class.Name, kind, metric)); known {
					return &m
				}
				return nil
			}
			f := ClassFigures{Class: class.Name, Metric: metric, Together: of(ClassTogether),
				Alone: of(ClassAlone), Slowdown: of(ClassSlowdown)}
			if metric == SLOAttainment {
				f.Objective = class.Objective.String()
			}
			if f.Together != nil || f.Alone != nil {
				list = append(list, f)
			}
		}
	}
	return list
}

// IsOfClass reports whether a name is that of a metric of a class, whatever classes there are.
func IsOfClass(name string) bool {
	_, kind, metric, ok := ofClass(name)
	return ok && slices.Contains([]string{ClassTogether, ClassAlone, ClassSlowdown}, kind) &&
		slices.Contains(ClassMetrics, metric)
}

func defineOfClass(name string) Definition {
	class, kind, metric, _ := ofClass(name)
	d := Define(metric)
	if metric == SLOAttainment {
		d = Definition{Unit: "ratio", Better: Higher,
			Help: "share of the operations due that were answered within the objective"}
	}
	d.Name, d.Help = name, "class "+class+": "+d.Help
	switch kind {
	case ClassAlone:
		d.Help += ", without the other classes"
	case ClassSlowdown:
		d.Unit, d.Better = "ratio", Lower
		d.Help = "class " + class + ": how much worse " + metric +
			" is with the other classes than alone; 1 is no difference"
	}
	return d
}
