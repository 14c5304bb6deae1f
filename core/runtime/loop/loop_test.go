package loop

import (
	"time"
)

// spinFor takes the time without giving up the processor.
func spinFor(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
	}
}
