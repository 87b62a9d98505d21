// Package consolestories runs the stories of the console, which are in console/stories, in a real browser. It starts a product with an
// account for them.
//
// It does not contain the stories: the story of a page is next to the page's sources, in the same language.
//
// Read stories_test.go; console/README.md says how to write a story.
package consolestories
