package runner

import (
	"transportbench/core/base/record"
)

// takeSetups moves what the setup of each rank took out of the reports of the first window, which
// have it for all ranks or not at all.
func (b *bench) takeSetups(reports []record.Report) {
	var setups []record.RankSetup
	for i := range reports {
		if s := reports[i].Setup; s != nil {
			setups = append(setups, *s)
			reports[i].Setup = nil
		}
	}
	if len(setups) == len(reports) && b.setups == nil {
		b.setups = setups
	}
}
