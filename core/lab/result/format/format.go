package format

import (
	"fmt"
	"math"
	"strconv"

	"transportbench/core/lab/result"
)

// scale is a unit and how many of the base unit it holds.
type scale struct {
	factor float64
	suffix string
}

// The scales go from small to large; the largest that a value fills is used.
var (
	timeScales = []scale{{1, "ns"}, {1e3, "us"}, {1e6, "ms"}, {1e9, "s"}}
	rateScales = []scale{{1, "op/s"}, {1e3, "K op/s"}, {1e6, "M op/s"}, {1e9, "G op/s"}}
	byteScales = []scale{{1, "B/s"}, {1e3, "KB/s"}, {1e6, "MB/s"}, {1e9, "GB/s"}}
)

// scaleFor picks the scale in which value has one to three digits before the
// point. What rounds up to the next scale counts as there.
func scaleFor(value float64, scales []scale) scale {
	best := scales[0]
	for _, s := range scales[1:] {
		if math.Abs(value) >= s.factor*0.9995 {
			best = s
		}
	}
	return best
}

// Digits writes a number with three significant digits, and more only where
// the whole part has more.
func Digits(value float64) string {
	switch magnitude := math.Abs(value); {
	case magnitude >= 99.95 || magnitude == 0:
		return strconv.FormatFloat(value, 'f', 0, 64)
	case magnitude >= 9.995:
		return strconv.FormatFloat(value, 'f', 1, 64)
	case magnitude >= 0.9995:
		return strconv.FormatFloat(value, 'f', 2, 64)
	case magnitude >= 0.01:
		return strconv.FormatFloat(value, 'f', 3, 64)
	default:
		return strconv.FormatFloat(value, 'g', 2, 64)
	}
}

func scaled(value float64, scales []scale) string {
	s := scaleFor(value, scales)
	return Digits(value/s.factor) + " " + s.suffix
}

// Time writes a time in nanoseconds.
func Time(ns float64) string { return scaled(ns, timeScales) }

// Rate writes operations per second.
func Rate(perSecond float64) string { return scaled(perSecond, rateScales) }

// scalesOf returns how the values of a unit are written; nil is as they are.
func scalesOf(unit string) (scales []scale, suffix string) {
	switch unit {
	case "ns":
		return timeScales, ""
	case "ns/op":
		return timeScales, "/op"
	case "op/s":
		return rateScales, ""
	case "B/s":
		return byteScales, ""
	case "ratio":
		return []scale{{1, ""}}, ""
	default:
		return []scale{{1, unit}}, ""
	}
}

// Value writes a metric's median.
func Value(m result.Metric) string {
	return Number(m.Median, m.Unit)
}

// Interval writes a metric's 95% interval in the unit that Value chooses, or
// why there is none.
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

func join(number, unit string) string {
	if unit == "" {
		return number
	}
	return number + " " + unit
}

// Count writes a number of things, such as "1 core" and "2 cores".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Percent writes a share as a signed percentage, large ones as a factor.
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

// Percents writes an interval of shares; without one a dash.
func Percents(low, high *float64) string {
	if low == nil || high == nil {
		return "-"
	}
	return Percent(low) + " to " + Percent(high)
}

// Probability writes a p-value; without one a dash.
func Probability(p *float64) string {
	switch {
	case p == nil:
		return "-"
	case *p < 0.0001:
		return "<0.0001"
	}
	return strconv.FormatFloat(*p, 'f', 4, 64)
}

// Machine says in one line what a result was recorded on. hypervisor is empty
// on bare metal.
func Machine(cpu string, cores int, hypervisor string) string {
	where := "bare metal"
	if hypervisor != "" {
		where = "a virtual machine (" + hypervisor + ")"
	}
	return fmt.Sprintf("%s, %s, %s", cpu, Count(cores, "core"), where)
}

// Number writes a value of a unit that metrics have, such as "ns" or "op/s";
// one of another unit is written as it is.
func Number(value float64, unit string) string {
	scales, suffix := scalesOf(unit)
	s := scaleFor(value, scales)
	return join(Digits(value/s.factor), s.suffix+suffix)
}
