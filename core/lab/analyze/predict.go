package analyze

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/format"
	"transportbench/core/transport"
)

// Prediction is what the model expects of another configuration.
type Prediction struct {
	Change string `json:"change"` // as it was given
	// Throughput is in op/s of all clients, and Latency the mean.
	Throughput float64 `json:"throughput"`
	Latency    float64 `json:"latency_ns"`
	Measured   float64 `json:"measured_throughput"` // without the change
	Message    string  `json:"message"`
	// There is what was measured with the change, where the set has such a cell;
	// see [MeasuredThere].
	There *result.Metric `json:"measured_there,omitempty"`
}

// changes are what can be changed in a model, by name.
var changes = map[string]func(m *Model, value string) error{
	"rtt": func(m *Model, value string) error {
		if m.RoundTrip == 0 {
			return errors.New("the result has no floor, so that nothing is known of its round trip")
		}
		rtt, err := positiveTime(value)
		m.Delay, m.RoundTrip = max(0, m.Delay+m.Transported*(rtt-m.RoundTrip)), rtt
		return err
	},
	"remote_share": func(m *Model, value string) error {
		share, err := strconv.ParseFloat(value, 64)
		if err != nil || !(share >= 0 && share <= 1) {
			return fmt.Errorf("%q is not a share from 0 to 1", value)
		}
		if m.Remote == 0 {
			return errors.New("the result has no local and remote requests to tell apart")
		}
		m.Delay = max(0, m.Delay+(share-m.RemoteShare)*(m.Remote-m.Local))
		m.RemoteShare = share
		return nil
	},
	"clients":   func(m *Model, value string) error { return positiveCount(&m.Clients, value) },
	"in_flight": func(m *Model, value string) error { return positiveCount(&m.InFlight, value) },
	"daemons":   func(m *Model, value string) error { return positiveCount(&m.Daemons, value) },
	"client": func(m *Model, value string) (err error) {
		m.ClientTime, err = positiveTime(value)
		return err
	},
	"daemon": func(m *Model, value string) (err error) {
		m.DaemonTime, err = positiveTime(value)
		return err
	},
	"burn": func(m *Model, value string) error {
		spent, err := positiveTime(value)
		m.ClientTime += spent
		return err
	},
}

// Changes are the names that [Model.Predict] knows, as help has them.
const Changes = "clients, in_flight and daemons (as the options), rtt (round trip of the medium), remote_share, " +
	"client and daemon (what an operation keeps them busy for), burn (added to the client's)"

// Predict says what the model expects after changes such as
// "rtt=2us,clients=16". What the model has wrong of the measured configuration
// it is taken to have wrong of the other by the same factor.
func (m *Model) Predict(change string) (Prediction, error) {
	changed := *m
	names := slices.Sorted(maps.Keys(changes))
	for part := range strings.SplitSeq(change, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(part), "=")
		name = strings.ReplaceAll(name, "-", "_")
		set, known := changes[name]
		switch {
		case !found:
			return Prediction{}, fmt.Errorf("%q is not of the form name=value", part)
		case !known:
			return Prediction{}, fmt.Errorf("%q cannot be changed%s; there are %s", name, transport.SuggestionFor(name, names), Changes)
		}
		if err := set(&changed, value); err != nil {
			return Prediction{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	if calls := changed.calls(); calls > mostCalls {
		return Prediction{}, fmt.Errorf("%d calls in flight are more than the %d that the model takes", calls, mostCalls)
	}
	return changed.against(m, change), nil
}

// against compares a changed model with the one that was measured.
func (m *Model) against(measured *Model, change string) Prediction {
	base, _ := measured.network().solve()
	expected, _ := m.network().solve()
	p := Prediction{Change: change, Measured: measured.Measured * float64(measured.Clients*measured.CallingRanks)}
	p.Throughput = p.Measured * expected / base
	limit := ""
	if m.Processors > 0 {
		if most := float64(m.Processors) / m.CPUPerOp * 1e9; p.Throughput > most {
			p.Throughput = most
			limit = fmt.Sprintf("; %s hold it down, which an operation takes %s of", format.Count(m.Processors, "processor"), format.Time(m.CPUPerOp))
		}
	}
	if measured.Running > 0 && measured.Running < saturated {
		limit += fmt.Sprintf("; its threads had a processor %.0f%% of the time alone, of which the model knows nothing", 100*measured.Running)
	}
	p.Latency = float64(m.calls()) / p.Throughput * 1e9
	p.Message = fmt.Sprintf("with %s the model expects %s (now %s), %s each in the mean%s", change,
		format.Rate(p.Throughput), format.Rate(p.Measured), format.Time(p.Latency), limit)
	return p
}

// mostCalls bounds the steps of the model's solution.
const mostCalls = 1 << 20

func positiveTime(text string) (ns float64, err error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is not a time such as 2us", text)
	}
	return float64(d), nil
}

func positiveCount(to *int, text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostCalls {
		return fmt.Errorf("%q is not a number from 1 to %d", text, mostCalls)
	}
	*to = n
	return nil
}
