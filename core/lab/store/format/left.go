package format

import "time"

// Left rounds the remaining time for a reader.
func Left(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
