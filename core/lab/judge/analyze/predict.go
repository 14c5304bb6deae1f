package analyze

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"transportbench/core/fabric/suggest"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Prediction is the model's prediction for another configuration.
type Prediction struct {
	Change string `json:"change"` // as given
	// Throughput is in op/s of all clients, and Latency the mean.
	Throughput float64 `json:"throughput"`
	Latency    float64 `json:"latency_ns"`
	Measured   float64 `json:"measured_throughput"` // without the change
	Message    string  `json:"message"`
	// MeasuredAfter is the throughput that was measured with the change; see [MeasuredAfter].
	MeasuredAfter *result.Metric `json:"measured_there,omitempty"`
}

// changes has the parameters of a model that can be changed.
var changes = map[string]func(m *Model, value string) error{
	"rtt": func(m *Model, value string) error {
		if m.RoundTrip == 0 {
			return errors.New("the round trip is unknown because the result has no floor")
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
			return errors.New("the result does not have both local and remote requests")
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

// Changes describes the names that [Model.Predict] knows, for help texts.
const Changes = "clients, in_flight and daemons (as the options), rtt (round trip of the " +
	"medium), remote_share, " +
	"client and daemon (time that an operation keeps them busy), burn (added to the client's time)"

// Predict predicts the throughput after changes such as "rtt=2us,clients=16". It assumes that the
// model is off by the same factor for the measured and the changed configuration.
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
			return Prediction{}, fmt.Errorf("%q cannot be changed%s; use %s", name,
				suggest.For(name, names), Changes)
		}
		if err := set(&changed, value); err != nil {
			return Prediction{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	if calls := changed.calls(); calls > maxCalls {
		return Prediction{},
			fmt.Errorf("%d calls in flight are out of range: the model takes up to %d", calls,
				maxCalls)
	}
	return changed.against(m, change), nil
}

// ChangeError reports a change that cannot be predicted.
type ChangeError struct{ error }

// Predictions predicts each change of a cell of s, and adds what s has measured of it. Of a nil
// model there are none. The error is a [*ChangeError].
func (m *Model) Predictions(s *set.Set, c *set.Cell, changes []string) (list []Prediction,
	err error) {
	if m == nil {
		return nil, nil
	}
	for _, change := range changes {
		p, err := m.Predict(change)
		if err != nil {
			return nil, &ChangeError{err}
		}
		p.MeasuredAfter = MeasuredAfter(s, c, change)
		list = append(list, p)
	}
	return list, nil
}

// against returns the prediction of a changed model, given the measured one.
func (m *Model) against(measured *Model, change string) Prediction {
	base, expected := measured.network().solve(), m.network().solve()
	p := Prediction{Change: change, Measured: measured.Measured * float64(
		measured.Clients*measured.CallingRanks)}
	p.Throughput = p.Measured * expected / base
	limit := ""
	if m.Processors > 0 {
		if maxRate := float64(m.Processors) / m.CPUPerOp * 1e9; p.Throughput > maxRate {
			p.Throughput = maxRate
			limit = fmt.Sprintf("; limited by %s, of which an operation takes %s",
				format.Count(m.Processors, "processor"), format.Time(m.CPUPerOp))
		}
	}
	if measured.Running > 0 && measured.Running < saturated {
		limit += fmt.Sprintf(
			"; the model does not know that threads had a processor only %.0f%% of the time",
			100*measured.Running)
	}
	p.Latency = float64(m.calls()) / p.Throughput * 1e9
	p.Message = fmt.Sprintf("with %s the model expects %s (now %s), %s each on average%s", change,
		format.Rate(p.Throughput), format.Rate(p.Measured), format.Time(p.Latency), limit)
	return p
}

// MeasuredAfter returns the measured throughput of the cell of s that has the configuration of c
// with the change, in the syntax of [Model.Predict]. It returns nil if there is none.
func MeasuredAfter(s *set.Set, c *set.Cell, change string) *result.Metric {
	wanted := maps.Clone(c.Config)
	var changed []string
	for part := range strings.SplitSeq(change, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		name = strings.ReplaceAll(name, "-", "_")
		if !slices.Contains([]string{"clients", "in_flight", "daemons", "remote_share", "burn"},
			name) {
			return nil // no option sets it
		}
		if d, err := time.ParseDuration(value); err == nil && name == "burn" {
			value = d.String() // as in results
		}
		wanted[name] = value
		changed = append(changed, name)
	}
	for i := range s.Cells {
		other := &s.Cells[i]
		if other.Environment == c.Environment && other.Plugin.Provider == c.Plugin.Provider &&
			len(other.Samples[result.Throughput]) > 0 &&
			set.Key(wanted) == other.Key() &&
			!slices.ContainsFunc(changed,
				func(name string) bool { return other.Config[name] != wanted[name] }) {
			return new(result.Summarize(result.Throughput, other.Samples[result.Throughput]))
		}
	}
	return nil
}

// maxCalls limits the steps of the model's solution.
const maxCalls = 1 << 20

func positiveTime(text string) (ns float64, err error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is not a time such as 2us", text)
	}
	return float64(d), nil
}

func positiveCount(to *int, text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxCalls {
		return fmt.Errorf("%q is out of range (1 to %d)", text, maxCalls)
	}
	*to = n
	return nil
}
