// Package compose holds the files of deploy/compose.yaml, a fleet to look at on one host. It has no code but its test. The test
// decodes the compose file strictly, and checks that its services, ports and settings fit each other.
package compose
