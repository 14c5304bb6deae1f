package format

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/lab/store/result"
)

// scale is a unit and how many of the base unit it holds.
type scale struct {
	factor float64
	suffix string
}

// The scales go from small to large.
var (
	timeScales = []scale{{1, "ns"}, {1e3, "us"}, {1e6, "ms"}, {1e9, "s"}}
	rateScales = []scale{{1, "op/s"}, {1e3, "K op/s"}, {1e6, "M op/s"}, {1e9, "G op/s"}}
	// of counts that can be large
	countScales = []scale{{1, ""}, {1e3, "K "}, {1e6, "M "}, {1e9, "G "}}
	byteScales  = []scale{{1, "B/s"}, {1e3, "KB/s"}, {1e6, "MB/s"}, {1e9, "GB/s"}}
)

// scaleFor returns the scale in which value has one to three digits before the point after
// rounding.
func scaleFor(value float64, scales []scale) scale {
	best := scales[0]
	for _, s := range scales[1:] {
		if math.Abs(value) >= s.factor*0.9995 {
			best = s
		}
	}
	return best
}

// Digits formats a number with three significant digits, or all digits of a larger integer part.
func Digits(value float64) string {
	switch magnitude := math.Abs(value); {
	case magnitude >= 99.95 || magnitude == 0:
		return strconv.FormatFloat(value, 'f', 0, 64)
	case magnitude >= 9.995:
		return strconv.FormatFloat(value, 'f', 1, 64)
	case magnitude >= 0.9995:
		return strconv.FormatFloat(value, 'f', 2, 64)
	case magnitude >= 0.09995:
		return strconv.FormatFloat(value, 'f', 3, 64)
	case magnitude >= 0.009995:
		return strconv.FormatFloat(value, 'f', 4, 64)
	default:
		return strconv.FormatFloat(value, 'g', 3, 64)
	}
}

func scaled(value float64, scales []scale) string {
	s := scaleFor(value, scales)
	return Digits(value/s.factor) + " " + s.suffix
}

// Time formats a time in nanoseconds.
func Time(ns float64) string { return scaled(ns, timeScales) }

// Rate formats operations per second.
func Rate(perSecond float64) string { return scaled(perSecond, rateScales) }

// Magnitude formats a rate or a count without its unit.
func Magnitude(n float64) string { return strings.TrimSuffix(Rate(n), " op/s") }

// Bytes formats a number of bytes: "1.20 GB".
func Bytes(n float64) string { return strings.TrimSuffix(scaled(n, byteScales), "/s") }

// scalesOf returns the scales of a unit and what follows their names.
func scalesOf(unit string) (scales []scale, suffix string) {
	switch unit {
	case "ns":
		return timeScales, ""
	case "ns/op":
		return timeScales, "/op"
	case "ns/MiB":
		return timeScales, "/MiB"
	case "op/s":
		return rateScales, ""
	case "B/s":
		return byteScales, ""
	case "event", "loop":
		return countScales, unit
	case "ratio":
		return []scale{{1, ""}}, ""
	default:
		return []scale{{1, unit}}, ""
	}
}

// Value formats a metric's median.
func Value(m result.Metric) string {
	return Number(m.Median, m.Unit)
}

// Interval formats a metric's 95% interval in the unit that Value chooses, or returns why there is
// none.
func Interval(m result.Metric) string {
	switch {
	case m.N <= 1:
		return "measured once"
	case m.Low == nil || m.High == nil:
		return fmt.Sprintf("no interval from %d repeats", m.N)
	}
	scales, _ := scalesOf(m.Unit)
	s := scaleFor(m.Median, scales)
	return Digits(*m.Low/s.factor) + " to " + Digits(*m.High/s.factor)
}

// Range formats a metric's 95% interval, each end in a fitting unit, or returns a dash if there is
// none. Use it for metrics whose ends may need different units.
func Range(m result.Metric) string {
	if m.Low == nil || m.High == nil {
		return "-"
	}
	low, high := Number(*m.Low, m.Unit), Number(*m.High, m.Unit)
	digits, unit, _ := strings.Cut(low, " ")
	if _, other, _ := strings.Cut(high, " "); other == unit {
		low = digits
	}
	return low + " to " + high
}

// Count formats a number of things, such as "1 core" and "2 cores".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// List joins names as in "a, b and c".
func List(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// Percent formats a change as a signed percentage, a large one as a factor, and nil as a dash.
func Percent(change *float64) string {
	switch {
	case change == nil:
		return "-"
	case *change >= 9:
		return fmt.Sprintf("x%s", Digits(1+*change))
	case math.Abs(*change) >= 0.0995:
		return fmt.Sprintf("%+.1f%%", 100**change)
	}
	return fmt.Sprintf("%+.2f%%", 100**change)
}

// Share formats a share as a percentage with two digits after the point if it is below 10%, else
// one, without zeros at the end.
func Share(share float64) string {
	digits := 2
	if math.Abs(share) >= 0.0995 {
		digits = 1
	}
	text := fmt.Sprintf("%.*f", digits, 100*share)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + "%"
}

// Percents formats an interval of changes, or a dash if there is none.
func Percents(low, high *float64) string {
	if low == nil || high == nil {
		return "-"
	}
	return Percent(low) + " to " + Percent(high)
}

// Probability formats a p-value, or a dash if there is none.
func Probability(p *float64) string {
	switch {
	case p == nil:
		return "-"
	case *p < 0.0001:
		return "<0.0001"
	}
	return strconv.FormatFloat(*p, 'f', 4, 64)
}

// Provider names the provider of a transport and what the transport took for options that left the
// choice to it: "memfd, inplace".
func Provider(provider string, chosen map[string]string) string {
	parts := []string{provider}
	for _, option := range slices.Sorted(maps.Keys(chosen)) {
		if taken := chosen[option]; !slices.Contains(parts, taken) {
			parts = append(parts, taken)
		}
	}
	return strings.Join(parts, ", ")
}

// Machine describes a machine in one line. hypervisor is empty on bare metal.
func Machine(cpu string, cores int, hypervisor string) string {
	where := "bare metal"
	if hypervisor != "" {
		where = "a virtual machine (" + hypervisor + ")"
	}
	return fmt.Sprintf("%s, %s, %s", cpu, Count(cores, "core"), where)
}

// MachineOf is [Machine] of a machine's identity as sets have it: names and values. It is empty if
// that has no processor.
func MachineOf(identity map[string]string) string {
	if identity["cpu"] == "" {
		return ""
	}
	cores, _ := strconv.Atoi(identity["cores"])
	return Machine(identity["cpu"], cores, identity["virtualisation"])
}

// Number formats a value in a unit of metrics, such as "ns" or "op/s". It does not scale values of
// other units.
func Number(value float64, unit string) string {
	scales, suffix := scalesOf(unit)
	s := scaleFor(value, scales)
	return strings.TrimSuffix(Digits(value/s.factor)+" "+s.suffix+suffix, " ")
}
