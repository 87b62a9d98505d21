// Package consolestories tells the stories of the console, which are in console/stories, in a real browser, against a product that
// it starts for them with an account.
//
// What it is not: the stories. A page's story stands beside its sources, in the language of both.
//
// Read stories_test.go; console/README.md says how a story is written.
package consolestories
