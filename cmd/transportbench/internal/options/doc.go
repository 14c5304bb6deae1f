// Package options turns flags, environment variables, a configuration file and
// profiles into one resolved configuration. What is set in several places is
// taken from the first of these; what nobody knows, or cannot be read, is an
// error that names its source.
package options
