// Package kubernetes holds the objects that run a fleet on Kubernetes, for kustomize: base, and the example of an overlay
// with an autoscaler. It has no code but its test. The test decodes each object strictly into the API's own types, and checks
// that the objects, the configuration and the program fit each other.
package kubernetes
