package result

// MixedRatio is the ratio of the bounces before and after a window above which the window is mixed:
// the machine was in more than one state. Distances between cores differ by more, and the probe
// repeats within less.
const MixedRatio = 1.5

// Apart reports whether two readings differ by more than [MixedRatio].
func Apart(a, b float64) bool {
	low, high := min(a, b), max(a, b)
	return low > 0 && high > MixedRatio*low
}

// BouncesApart reports whether the machine changed its state during the window.
func (r *Repeat) BouncesApart() bool { return Apart(r.Before.Bounce, r.After.Bounce) }

// SteadyBounces reports whether the bounces were measured and agree.
func (r *Repeat) SteadyBounces() bool {
	return r.Before.Bounce > 0 && r.After.Bounce > 0 && !r.BouncesApart()
}
