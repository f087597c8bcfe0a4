//go:build !race

package throttle

const raceDetector = false
