// Command cross checks that the program compiles for other systems, such as
//
//	go run ./internal/cross ./cmd/dispatcher linux/arm64 windows/amd64
//
// It checks the types of the package and of all that it imports, and makes no code. So it takes seconds, where builds of
// all modules for a further system take minutes. It starts no goroutine.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cross:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("name a package and the systems: cross PACKAGE GOOS/GOARCH…")
	}
	var errs []error
	for _, target := range args[1:] {
		errs = append(errs, check("", args[0], target))
	}
	return errors.Join(errs...)
}

// check type-checks a package, as seen from a folder, for a target, which is GOOS/GOARCH.
func check(dir, pkg, target string) error {
	system, arch, ok := strings.Cut(target, "/")
	if !ok {
		return fmt.Errorf("%q is not GOOS/GOARCH, such as linux/arm64", target)
	}
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo,
		Dir:  dir,
		Env:  append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch),
	}, pkg)
	if err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	var errs []error
	for p := range packages.Postorder(loaded) {
		for _, fault := range p.Errors {
			errs = append(errs, fmt.Errorf("%s: %w", target, fault))
		}
	}
	return errors.Join(errs...)
}
