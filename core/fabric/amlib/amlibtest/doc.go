// Package amlibtest tests workers of package amlib against peers that break the protocol.
package amlibtest
