// Package config is every option of a run: its name, type, default, help and
// bounds, and the profiles that set several at once. It knows neither flags
// nor files; the command binds them to it, and a result records it.
package config
