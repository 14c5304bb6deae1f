package calibration

import "github.com/aclements/go-moremath/mathx"

// binomial returns the share k of n with its exact 95% interval. n is above 0.
func binomial(k, n int) Estimate {
	low, high := BinomialInterval(float64(k), float64(n))
	return Estimate{float64(k) / float64(n), &low, &high}
}

// BinomialInterval returns the exact 95% interval of a share of hits among trials (Clopper and
// Pearson 1934). Both may be fractions, such as of trials that depend on each other and count less.
func BinomialInterval(hits, trials float64) (low, high float64) {
	high = 1
	if hits > 0 {
		low = betaQuantile(intervalAlpha/2, hits, trials-hits+1)
	}
	if hits < trials {
		high = betaQuantile(1-intervalAlpha/2, hits+1, trials-hits)
	}
	return low, high
}

// betaQuantile returns the q-quantile of the beta distribution, by bisection.
func betaQuantile(q, a, b float64) float64 {
	low, high := 0.0, 1.0
	for range 60 { // beyond the precision of a float64
		if x := (low + high) / 2; mathx.BetaInc(x, a, b) < q {
			low = x
		} else {
			high = x
		}
	}
	return (low + high) / 2
}
