package result

// MixedRatio is the ratio of the core distances before and after a window above which the window is
// mixed: the machine was in more than one state. Near and far cores differ by a factor of 3.7 and
// more, and near ones show distances of 32 and of 51 ns, which are one state.
const MixedRatio = 2.0

// ApartRatio is the ratio of two readings of a probe above which something disturbed one of them.
const ApartRatio = 1.5

// Apart reports whether two readings differ by more than [ApartRatio].
func Apart(a, b float64) bool { return beyond(ApartRatio, a, b) }

func beyond(ratio, a, b float64) bool {
	low, high := min(a, b), max(a, b)
	return low > 0 && high > ratio*low
}

// DistancesApart reports whether the machine changed its state during the window.
func (r *Repeat) DistancesApart() bool {
	return OtherState(r.Before.CoreDistance, r.After.CoreDistance)
}

// OtherState reports whether two core distances are of different states of the machine.
func OtherState(a, b float64) bool { return beyond(MixedRatio, a, b) }

// SteadyDistance reports whether the core distance was measured on both sides and is the same.
func (r *Repeat) SteadyDistance() bool {
	return r.Before.CoreDistance > 0 && r.After.CoreDistance > 0 && !r.DistancesApart()
}
