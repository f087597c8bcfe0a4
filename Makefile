# make alone says what there is.

GO             ?= go
GOLANGCI_LINT  ?= golangci-lint
LUACHECK       ?= luacheck
SCHEMATHESIS   ?= st
PACKAGES       ?= ./...
FUZZTIME       ?= 30s

# The version that a release and an image say they are.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
# The systems that a release is for.
TARGETS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64
IMAGE  ?= dispatcher:$(VERSION)

# What needs Docker is left out by -short, and skips itself where there is none:
# integration/, and the tests named Real of other packages.

.DEFAULT_GOAL := help
.PHONY: help build check lint lua words fmt test race mutants page alerts integration proof kills beside changes soak algorithm algorithms api fuzz bench demo cross release reproducible image

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build bin/dispatcher
	$(GO) build -trimpath -o bin/dispatcher ./cmd/dispatcher

cross: ## Check that the program compiles for each system of a release and for the image, in seconds
	@$(GO) run ./internal/cross ./cmd/dispatcher $(filter-out linux/amd64,$(TARGETS))
	@$(GO) vet -tags=nodemo ./cmd/dispatcher

release: ## Build dist/ for each system, with checksums; VERSION=v1.2.3 unless git has a tag
	@rm -rf dist && mkdir dist
	@set -e; for target in $(TARGETS); do \
		file=dispatcher-$(VERSION)-$$(echo $$target | tr / -); case $$target in windows/*) file=$$file.exe;; esac; \
		echo $$file; GOOS=$${target%/*} GOARCH=$${target#*/} deploy/build.sh "$$PWD/dist/$$file" "$(VERSION)"; \
	done
	@cd dist && sha256sum dispatcher-* >SHA256SUMS && cat SHA256SUMS

reproducible: ## Build in another folder, without git and without a cache, and compare: two minutes
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; mkdir "$$dir/src"; \
	git ls-files -z | xargs -0 tar -cf - | tar -xf - -C "$$dir/src"; \
	deploy/build.sh "$$dir/here" "$(VERSION)"; GOCACHE="$$dir/cache" "$$dir/src/deploy/build.sh" "$$dir/there" "$(VERSION)"; \
	sha256sum "$$dir/here" "$$dir/there"; cmp "$$dir/here" "$$dir/there"; echo "the same bytes"

image: ## Build the image IMAGE (dispatcher:VERSION); needs Docker
	docker build -f deploy/Dockerfile --build-arg VERSION="$(VERSION)" $(IMAGE_ARGS) -t "$(IMAGE)" .

check: lint lua words test ## Everything that needs neither Docker nor much time

lint: ## Lint the Go code, formatting included
	$(GOLANGCI_LINT) run $(PACKAGES)

lua: ## Lint the Redis scripts, joined as they run
	@$(GO) run ./lua/joined bin/lua
	$(LUACHECK) --quiet bin/lua

words: ## Find retired words, and name the terms that took their place
	@$(GO) run ./internal/words

fmt: ## Format the Go code
	$(GOLANGCI_LINT) fmt

test: ## Run the tests that need nothing but Go
	$(GO) test -short ./...

race: ## The same under the race detector, but for fleets of throttle that one goroutine plays: they have no race
	$(GO) test -short -race -shuffle=on -timeout=30m ./...

mutants: ## Break each law on purpose, and demand that its test fails (AREA=NAME: one area)
	$(GO) run ./internal/mutants $(if $(AREA),-area $(AREA))

# What measures is judged best by hand, on a machine that does nothing else: `make proof`. The rest is CI's.
MEASURES = ^Test(Measured|Faults|Kafka39|NoRepeatsReal|DialsReal|WallReal|ManyPartitionsReal|StallsReal|AHighRateReal|ALowRateReal|ACrowdReal|CostReal|CallsInFlightReal|GatesReal|QuotaReal|FeedbackReal|LanesReal|FairReal|FiguresReal|PagesCostReal|ImageReal|AlertsReal|ChangesReal)$$
DOCKER   = DISPATCHER_REQUIRE_DOCKER=1 $(GO) test -count=1 -v

page: ## The operators' page in a real browser (needs chromium)
	DISPATCHER_TEST_REQUIRE_BROWSER=1 $(GO) test -count=1 ./internal/page

alerts: ## The alerts and the scaler's query by promtool (needs Debian's package prometheus)
	DISPATCHER_TEST_REQUIRE_PROMETHEUS=1 $(GO) test -count=1 -run='Promtool|TheScaler' ./internal/watched

integration: ## The built binary against Kafka and Redis in containers (needs Docker)
	$(DOCKER) -timeout=25m -run='^Test(Friday|Inputs|[A-Za-z0-9]*Real)$$' -skip='$(MEASURES)' ./integration
	$(DOCKER) -timeout=20m -p=3 -run='Real$$' -skip='$(MEASURES)|^Test(Cluster|Pace|MemoryAndCost)Real$$' ./consumer/... ./throttle/... ./internal/dedup ./internal/setupcheck
	$(DOCKER) -timeout=20m -run='^TestChangesReal$$' ./throttle

proof: ## What is measured on real Kafka and Redis, beside what it is compared with: two hours (needs Docker, and Debian's package prometheus)
	$(DOCKER) -timeout=60m -run='$(MEASURES)' -skip='^TestChangesReal$$' ./throttle ./consumer
	DISPATCHER_TEST_REQUIRE_PROMETHEUS=1 $(DOCKER) -timeout=180m -run='$(MEASURES)' ./integration
	DISPATCHER_REQUIRE_DOCKER=1 $(GO) test -run='^$$' -bench='ScriptHot|ManyValues' -benchtime=3000x ./throttle
	DISPATCHER_REQUIRE_DOCKER=1 $(GO) test -run='^$$' -bench='FullWindow' -benchtime=3x ./throttle
	DISPATCHER_REQUIRE_DOCKER=1 $(GO) test -run='^$$' -bench='Throughput' -benchtime=2000000x ./integration
	$(MAKE) mutants changes

changes: ## Change a limit 100,000 times under load: 5 minutes (needs Docker)
	DISPATCHER_REQUIRE_DOCKER=1 $(GO) test -count=1 -timeout=30m -v -run='^TestChangesReal$$' ./throttle -changes=100000

beside: ## Compare with an earlier build, whose binary is BEFORE=PATH; both work at the same time: 12 minutes (needs Docker)
	$(if $(BEFORE),,$(error BEFORE=PATH must name the earlier build's binary))
	$(DOCKER) -timeout=60m -run='^TestBeside$$' ./integration -before=$(abspath $(BEFORE))

kills: ## Kill a random node each 30 s, three runs of 60,000 jobs: 12 minutes (needs Docker)
	DISPATCHER_REQUIRE_DOCKER=1 $(GO) test -count=1 -timeout=60m -v -run='^TestNoRepeatsReal$$' ./integration -full

SOAKTIME ?= 30m

soak: ## Let a fleet work for SOAKTIME (30m) under disturbances, and see what grows (needs Docker)
	$(DOCKER) -timeout=90m -run='^TestSoak$$' ./integration -soak=$(SOAKTIME)

algorithm: ## Run the quick tests of one algorithm: NAME=token_bucket
	@grep -q '= "$(NAME)"$$' throttle/limit/algorithms.go || { echo 'NAME: "$(NAME)": must be the name of an algorithm in throttle/limit/algorithms.go'; exit 1; }
	$(GO) test -short -run '^(TestAScript|TestAnAlgorithm|TestPromises|TestTheScriptKeepsEveryPace)|^Test(Conformance|ConformanceFindsWhatARulePrevents|AlgorithmsGrantWholeJobs|ChangesOfTheGuardNeverPassTheCap|EveryOrdinaryContractIsTaken)$$/^$(NAME)($$|_without_)' ./throttle

algorithms: ## Measure every algorithm, and write docs/algorithms.md (needs Docker)
	DISPATCHER_REQUIRE_DOCKER=1 $(GO) test -count=1 -timeout=30m -v -run='^TestAlgorithms$$' ./integration -write

APITIME ?= 5m

api: ## Make requests from the OpenAPI document for APITIME (5m), by schemathesis 4
	@command -v $(SCHEMATHESIS) >/dev/null || { echo "schemathesis is missing: pip install schemathesis, or SCHEMATHESIS=PATH of its command st"; exit 1; }
	$(GO) test -count=1 -timeout=30m -v -run='^TestSchemathesis$$' ./internal/api -schemathesis="$$(command -v $(SCHEMATHESIS))" -schemathesis-for=$(APITIME)

fuzz: ## Fuzz every decoder for FUZZTIME (30s) each
	@set -e; for file in $$(grep -rl --include='*_test.go' '^func Fuzz' .); do \
		for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$file); do \
			echo "$$name in $$(dirname $$file)"; \
			$(GO) test -run='^$$' -fuzz="^$$name$$" -fuzztime=$(FUZZTIME) $$(dirname $$file); \
		done; \
	done

bench: ## Run the benchmarks
	$(GO) test -run='^$$' -bench=. -benchmem ./...

demo: ## Run a whole fleet on embedded parts
	$(GO) run ./cmd/dispatcher demo
