package experiment

import "time"

// Pace tells the time that is left, from how long runs took beside what was planned for them.
type Pace struct {
	ToCome        time.Duration // planned for the runs to come
	planned, took time.Duration // for those that were made
}

// Made takes a run from those to come.
func (p *Pace) Made(planned, took time.Duration) {
	p.ToCome, p.planned, p.took = p.ToCome-planned, p.planned+planned, p.took+took
}

// Left returns the time that is left.
func (p *Pace) Left() time.Duration {
	if p.planned == 0 {
		return p.ToCome
	}
	return time.Duration(float64(p.ToCome) * float64(p.took) / float64(p.planned))
}
