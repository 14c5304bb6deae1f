// Package config has the options of a run, [Config]: their names, types, defaults and bounds, and
// the [Profile] values that set several of them at once. It does not know flags or files: the
// command binds both to the options, and a result records the values.
//
// [Config.Validate] checks a configuration where it enters a process. The other packages rely on
// that and do not check again.
package config
