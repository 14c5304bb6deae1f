package transporttest

import "transportbench/core/transporttest/attempt"

// trial is one run of one clause. It records failures instead of failing a test, so that a clause
// can also run against a transport that must fail it.
type trial struct {
	*attempt.T
	suite  *Suite
	traits traits
}

// try runs c against s, within the time limit of the suite.
func try(s *Suite, tr traits, c clause) (failed bool, lines []string) {
	return attempt.Run(s.timeout(), func(t *attempt.T) { c.run(&trial{t, s, tr}) })
}
