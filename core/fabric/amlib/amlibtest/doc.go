// Package amlibtest tests workers of package amlib: probes of their library, and peers that break
// the protocol.
package amlibtest
