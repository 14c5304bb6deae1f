package config

import (
	"fmt"
	"time"

	"transportbench/core/base/delay"
)

// MaxStorageLanes is the largest number of requests that the storage of a daemon serves at a time.
const MaxStorageLanes = 1 << 16

// Stored reports whether a storage delays requests.
func (c *Config) Stored() bool {
	return c.ReadDelay != "" || c.WriteDelay != "" || c.LookupDelay != ""
}

// checkStorage checks the delays against the service and the calls in flight.
func checkStorage(c *Config) *Error {
	switch {
	case c.StorageLanes > 0 && c.ReadDelay == "" && c.WriteDelay == "":
		return &Error{"storage-lanes",
			"has no effect without a delay; use --read-delay or --write-delay too"}
	case c.WriteLanes > 0 && (c.StorageLanes == 0 || c.WriteDelay == ""):
		return &Error{"write-lanes",
			"has no effect alone; use --storage-lanes and --write-delay too"}
	}
	writeLanes, lanesOption := c.StorageLanes, "storage-lanes"
	if c.WriteLanes > 0 {
		writeLanes, lanesOption = c.WriteLanes, "write-lanes"
	}
	for _, d := range []struct {
		option, more string
		delay        delay.Delay
		lanes        int
	}{{"read-delay", "storage-lanes", c.ReadDelay, c.StorageLanes},
		{"write-delay", lanesOption, c.WriteDelay, writeLanes}} {
		if d.delay == "" || d.lanes == 0 {
			continue
		}
		calls := c.TotalClients() * c.InFlight
		_, held := d.delay.Parts()
		if rounds := (calls + d.lanes - 1) / d.lanes; time.Duration(rounds) >
			delay.Longest/max(held.Mean(), 1) {
			return &Error{d.option, fmt.Sprintf("%d calls in flight take over %v on %d lanes at "+
				"%s each; use more --%s or a shorter delay",
				calls, delay.Longest, d.lanes, held, d.more)}
		}
	}
	return nil
}
