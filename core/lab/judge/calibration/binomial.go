package calibration

import "github.com/aclements/go-moremath/mathx"

// binomial returns the share k of n with its exact 95% interval (Clopper and Pearson 1934). n is
// above 0.
func binomial(k, n int) Estimate {
	low, high := 0.0, 1.0
	if k > 0 {
		low = betaQuantile(intervalAlpha/2, float64(k), float64(n-k+1))
	}
	if k < n {
		high = betaQuantile(1-intervalAlpha/2, float64(k+1), float64(n-k))
	}
	return Estimate{float64(k) / float64(n), &low, &high}
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
