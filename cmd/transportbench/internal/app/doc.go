// Package app is what all commands share: their streams, settings, errors and exit codes.
package app
