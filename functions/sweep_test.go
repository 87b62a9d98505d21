package functions_test

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
)

// The authorization sweep asks every operation that the declarations list, as
// everyone who must not get an answer. What a caller does not see has to read,
// byte for byte, like what does not exist: a second world, in which it never
// existed, answers the same request.

func TestNoKeyGarbageAndExpiredKeysAreRefused(t *testing.T) {
	p := newPopulated(t)
	each(t, private, func(t *testing.T, d api.Declaration) {
		w := p.Copy(t)
		soon := w.Now.Add(time.Minute)
		expired := w.KeyOf("acme", accounts.Spec{ExpiresOn: &soon, Permissions: auth.Full()})
		w.Now = soon
		path, body := target(t, d, p.book.Request(d), p.names)
		before := w.Items.Snapshot()
		for name, key := range map[string]string{
			"none": "", "garbage": "garbage", "a consumer key": "gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_00000000", "an expired key": expired,
		} {
			a := w.Call(key, d.Method, path, body)
			if a.Status != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s: %s", name, a.Whole)
			}
		}
		unchanged(t, before, w.Items.Snapshot())
	})
}

func TestMissingScopeIsForbiddenAndChangesNothing(t *testing.T) {
	p := newPopulated(t)
	each(t, func(d api.Declaration) bool { return d.Scope != "" }, func(t *testing.T, d api.Declaration) {
		w := p.Copy(t)
		key := w.Key("acme", func(p *auth.Permissions) {
			p.Scopes = slices.DeleteFunc(p.Scopes, func(s auth.Scope) bool {
				return s == d.Scope || s == d.Scope.Resource().Write()
			})
		})
		before := w.Items.Snapshot()
		path, body := target(t, d, p.book.Request(d), p.names)
		w.Call(key, d.Method, path, body).Want(http.StatusForbidden, string(d.Scope))
		unchanged(t, before, w.Items.Snapshot())
		refusedOnce(w, d, before)
	})
}

// TestItsScopeAloneIsEnough: an operation asks for the scope that it declares
// and for no other.
func TestItsScopeAloneIsEnough(t *testing.T) {
	p := newPopulated(t)
	each(t, private, func(t *testing.T, d api.Declaration) {
		w := p.Copy(t)
		key := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{d.Scope} })
		if d.Scope == "" {
			key = w.Key("acme", func(p *auth.Permissions) { p.Scopes = nil })
		}
		path, body := target(t, d, p.book.Request(d), p.names)
		w.Call(key, d.Method, path, body).Want(d.Status)
	})
}

func TestEveryOperationSaysWhatTheUnseenIsAnswered(t *testing.T) {
	book := samples(t)
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			switch {
			case d.Public:
				if d.Unseen != (api.Unseen{}) {
					t.Errorf("%s is public and hides nothing: leave Unseen out", d.ID)
				}
			case d.Unseen.Project == 0 || d.Unseen.Environment == 0:
				t.Errorf("%s: say in Unseen what a key is answered that does not see what is asked for: api.UnseenIsAbsent, api.UnseenIsLeftOut or two statuses", d.ID)
			case d.Mutates() && d.Unseen.Project < http.StatusMultipleChoices && !d.KeyAlone && !d.SessionAlone: // a session is about no project
				t.Errorf("%s changes something for a key that does not see its project: refuse it", d.ID)
			}
			for _, r := range variants(book, d) {
				if in := named(d, r); len(in) > 0 && !d.Public && d.Unseen != api.UnseenIsAbsent {
					t.Errorf("%s names %v: what is not seen has to be answered as absent", d.ID, in)
				}
			}
		}
	}
}

// stranger is a kind of caller who does not see what the operations are about.
type stranger struct {
	name string
	// limit makes the caller's key of one of acme's, nil a full one.
	limit func(*auth.Permissions)
	// owner is whose the things are.
	owner string
	// shown is what of them the caller sees.
	shown []string
	// named is what the account is called in requests.
	named string
	// status is what an operation answers, 0 where the stranger is none to it: the
	// two worlds are alike to it all the same.
	status func(d api.Declaration, r events.Request, path, body string) int
}

// named are the parameters of a request that name something which has to exist,
// in its path, its query or its body.
func named(d api.Declaration, r events.Request) []string {
	return slices.DeleteFunc(append(events.Parameters(d), r.Placeholders()...), isPlace)
}

func strangers() []stranger {
	unseenProject := func(d api.Declaration, _ events.Request, _, _ string) int { return d.Unseen.Project }
	unseenEnvironment := func(d api.Declaration, _ events.Request, _, _ string) int { return d.Unseen.Environment }
	previews := func(p *auth.Permissions) { p.Environments = []environment.Kind{environment.Preview} }
	return []stranger{
		{
			name: "another account by its name", owner: "globex", named: "globex",
			status: func(d api.Declaration, r events.Request, path, body string) int {
				if strings.Contains(path+body, "globex") || len(named(d, r)) > 0 {
					return http.StatusNotFound
				}
				return 0
			},
		},
		{
			name: "another account's things under the caller's own", owner: "globex", named: "acme",
			status: func(d api.Declaration, r events.Request, path, body string) int {
				if len(named(d, r)) > 0 {
					return http.StatusNotFound
				}
				return 0
			},
		},
		{
			name: "a key of another project", owner: "acme", named: "acme", status: unseenProject,
			limit: func(p *auth.Permissions) { p.Projects = []string{"blog"} },
		},
		{
			name: "a key of no project", owner: "acme", named: "acme", status: unseenProject,
			limit: func(p *auth.Permissions) { p.Projects, p.Environments = []string{}, []environment.Kind{} },
		},
		{
			name: "a key of another kind of environment", owner: "acme", named: "acme", shown: []string{projects},
			status: unseenEnvironment, limit: previews,
		},
		{
			name: "a key of the project, but another kind of environment", owner: "acme", named: "acme", shown: []string{projects},
			status: func(d api.Declaration, r events.Request, path, body string) int {
				if strings.Contains(body, "shop-next") {
					return http.StatusForbidden // another project, which it would not see
				}
				return d.Unseen.Environment
			},
			limit: func(p *auth.Permissions) { p.Projects = []string{"shop"}; previews(p) },
		},
	}
}

// worlds are two that begin alike: with has what the stranger does not see.
type worlds struct {
	with, without *functionstest.World
	key           string
	names         events.Names
}

func (s stranger) worlds(t *testing.T, book *events.Book) (out worlds) {
	t.Helper()
	begin := func(t *testing.T) (w *functionstest.World, key, full string) {
		w = newWorld(t)
		full = w.Account("acme")
		key = w.Key("acme", s.limit)
		if len(s.shown) > 0 {
			populate(w, book, full, "acme", s.shown...)
		}
		return w, key, full
	}
	synctest.Test(t, func(t *testing.T) {
		with, key, full := begin(t)
		without, same, _ := begin(t)
		if key != same {
			t.Fatal("the two worlds do not begin alike")
		}
		if s.owner != "acme" {
			full = with.Account(s.owner)
		}
		var rest []string
		for _, g := range groups() {
			if !slices.Contains(s.shown, g.Name) {
				rest = append(rest, g.Name)
			}
		}
		out = worlds{with: with, without: without, key: key, names: populate(with, book, full, s.owner, rest...)}
	})
	out.names["accountName"] = s.named
	return out
}

// TestTheUnseenReadsLikeTheAbsent compares, for each kind of stranger and each
// operation, a world that has what the stranger must not see with one that does
// not have it.
func TestTheUnseenReadsLikeTheAbsent(t *testing.T) {
	book := samples(t)
	for _, s := range strangers() {
		t.Run(s.name, func(t *testing.T) {
			two := s.worlds(t, book)
			each(t, sampled(private), func(t *testing.T, d api.Declaration) {
				for i, r := range variants(book, d) {
					path, body := target(t, d, r, two.names)
					want := s.status(d, r, path, body)
					if len(r.After) > 0 && i > 0 {
						continue // what a variant needs is its owner's to make
					}
					if i > 0 && len(named(d, r)) == 0 && !strings.Contains(path+body, "globex") {
						want = 0 // it may be about something else than the plain one
					}
					with, without := two.with.Copy(t), two.without.Copy(t)
					before, own := with.Items.Snapshot(), without.Items.Snapshot() // of the caller's account is what both have
					unseen := with.Call(two.key, d.Method, path, body)
					absent := without.Call(two.key, d.Method, path, body)
					if unseen.Whole != absent.Whole {
						t.Errorf("it tells the unseen from the absent:\n%s\n%s", unseen.Whole, absent.Whole)
					}
					if want != 0 && unseen.Status != want && (want >= http.StatusMultipleChoices || unseen.Status != d.Status) {
						t.Errorf("%s %s %s: declared is %d (Unseen), answered %s", d.Method, path, body, want, unseen.Whole)
					}
					after := with.Items.Snapshot()
					if unseen.Status >= http.StatusMultipleChoices {
						unchanged(t, before, after)
						refusedOnce(with, d, before)
					}
					for key, item := range before {
						if _, is := own[key]; !is && s.owner != "acme" && !reflect.DeepEqual(item, after[key]) {
							t.Errorf("it changed %s %s of another account", key.PK, key.SK)
						}
					}
				}
			})
		})
	}
}

// TestOtherAccountsMakeNoDifference: an account that has everything is answered
// the same, byte for byte, whether or not another one has the same under the
// same names, and changes nothing of it. Names are unique within an account,
// lists and counts are its own.
func TestOtherAccountsMakeNoDifference(t *testing.T) {
	book := samples(t)
	var alone, beside *functionstest.World
	var key string
	var names events.Names
	synctest.Test(t, func(t *testing.T) {
		begin := func() (w *functionstest.World) {
			w = newWorld(t)
			key = w.Account("acme")
			names = populate(w, book, key, "acme")
			return w
		}
		alone, beside = begin(), begin()
		populate(beside, book, beside.Account("globex"), "globex")
	})
	own := alone.Items.Snapshot()
	each(t, private, func(t *testing.T, d api.Declaration) {
		for _, r := range append(variants(book, d), book.Making(d)...) {
			ask := func(w *functionstest.World) string {
				n := maps.Clone(names)
				if err := book.Steps(w.Client(key), n, r.After); err != nil {
					t.Fatal(err)
				}
				path, body := target(t, d, r, n)
				w.Restart()
				return w.Call(key, d.Method, path, body).Whole
			}
			with := beside.Copy(t)
			before := with.Items.Snapshot()
			if got, want := ask(with), ask(alone.Copy(t)); got != want {
				t.Errorf("another account's things show:\n%s\nwithout them:\n%s", got, want)
			}
			after := with.Items.Snapshot()
			for at, item := range before {
				if _, its := own[at]; !its && !reflect.DeepEqual(item, after[at]) {
					t.Errorf("it changed %s %s of another account", at.PK, at.SK)
				}
			}
		}
	})
}

// TestBadInputIsRefusedAndRecorded: a body that means nothing is a 400, and a
// change that it did not make is recorded as refused.
func TestBadInputIsRefusedAndRecorded(t *testing.T) {
	p := newPopulated(t)
	each(t, func(d api.Declaration) bool { return d.TakesBody }, func(t *testing.T, d api.Declaration) {
		w := p.Copy(t)
		path, _ := target(t, d, p.book.Request(d), p.names)
		for _, body := range []string{`{`, `"text"`, `17`, `{"a":1,"a":2}`} {
			w.Restart()
			w.Now = w.Now.Add(time.Second)
			before := w.Items.Snapshot()
			w.Call(p.key, d.Method, path, body).Want(http.StatusBadRequest)
			unchanged(t, before, w.Items.Snapshot())
			refusedOnce(w, d, before)
		}
	})
}
