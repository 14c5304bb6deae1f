// Package trend estimates how fast a series of measurements rises or falls.
package trend
