package tcpx

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// explain returns where the time of a bulk transfer went on each side.
func (r bulkReading) explain() string {
	return fmt.Sprintf("%.1f Gb/s, %d requests; sender: %s; receiver: %s",
		r.bandwidth()*8/1e9, r.receive.consumes, r.send.explain(r.sendCPU, r.elapsed, reasonSending, reasonReceiving),
		r.receive.explain(r.receiveCPU, r.elapsed, reasonReceiving, breakdownCount))
}

// explain lists the shares of a side's time, largest first, and the means of its windows. It
// lists the reasons from first to end, without end.
func (k *counters) explain(cpu, elapsed time.Duration, first, end int) string {
	type share struct {
		of    float64
		named string
	}
	whole := float64(max(elapsed, 1))
	var shares []share
	for c := first; c < end; c++ {
		shares = append(shares, share{float64(k.time[c]) / whole, strings.TrimSuffix(reasons[c].name, "_ns")})
	}
	slices.SortStableFunc(shares, func(a, b share) int {
		switch {
		case a.of > b.of:
			return -1
		case a.of < b.of:
			return 1
		}
		return 0
	})
	var text strings.Builder
	for _, s := range shares {
		if s.of >= 0.005 {
			fmt.Fprintf(&text, "%s %.0f%%, ", s.named, 100*s.of)
		}
	}
	busy := float64(max(k.time[busyTime], 1))
	moved := float64(max(k.sentBytes, k.receivedBytes, 1))
	fmt.Fprintf(&text, "windows %.1f sends, %.1f in flight, %.1f pending, %.2f copies a byte, %.2f processor seconds a GB",
		float64(k.time[sendOccupancy])/busy, float64(k.time[flightOccupancy])/busy, float64(k.time[pendingOccupancy])/busy,
		float64(k.staged+k.unpackedBytes)/moved, cpu.Seconds()/moved*1e9)
	return text.String()
}
