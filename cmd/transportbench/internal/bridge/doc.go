// Package bridge finds the plugins of two sets' versions, so that ab can measure both in turns.
package bridge
