package config

// Load is a kind of load. It decides what the figures mean.
type Load int

// The kinds.
const (
	// LoadClosed keeps a fixed number of calls in flight.
	LoadClosed Load = iota
	// LoadOpen is an open loop: operations are due by a schedule.
	LoadOpen
	// LoadCapacity is an open loop at [RateMax], which finds the capacity; its response times have
	// no meaning.
	LoadCapacity
	// LoadClasses has classes of clients with loads of their own, closed or open.
	LoadClasses
	// LoadBursts has hand-offs one after the other. As many calls as may be are in flight until all
	// of one are issued.
	LoadBursts
)

// Load returns the kind of the load.
func (c *Config) Load() Load {
	switch {
	case c.Handoff != "":
		return LoadBursts
	case len(c.Classes) > 0:
		return LoadClasses
	case c.Rate.Offers():
		return LoadOpen
	case c.Rate != 0:
		return LoadCapacity
	}
	return LoadClosed
}

// Scheduled reports whether some operations are due by a schedule that a transport can keep.
func (c *Config) Scheduled() bool { return c.Load() == LoadOpen || c.Classes.Open() }
