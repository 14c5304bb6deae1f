package result

// MixedRatio is the ratio of the bounces before and after a window above which the window is mixed:
// the machine was in more than one state. Near and far cores differ by a factor of 3.7 and more,
// and near ones show bounces of 32 and of 51 ns, which are one state.
const MixedRatio = 2.0

// ApartRatio is the ratio of two readings of a probe above which something disturbed one of them.
const ApartRatio = 1.5

// Apart reports whether two readings differ by more than [ApartRatio].
func Apart(a, b float64) bool { return beyond(ApartRatio, a, b) }

func beyond(ratio, a, b float64) bool {
	low, high := min(a, b), max(a, b)
	return low > 0 && high > ratio*low
}

// BouncesApart reports whether the machine changed its state during the window.
func (r *Repeat) BouncesApart() bool { return OtherState(r.Before.Bounce, r.After.Bounce) }

// OtherState reports whether two bounces are of different states of the machine.
func OtherState(a, b float64) bool { return beyond(MixedRatio, a, b) }

// SteadyBounces reports whether the bounces were measured and agree.
func (r *Repeat) SteadyBounces() bool {
	return r.Before.Bounce > 0 && r.After.Bounce > 0 && !r.BouncesApart()
}
