// Package pages renders the HTML pages of the server: the landing page, the reference of the
// REST interface, and events. A page is self-contained: it loads no script, font or image,
// and its policy permits only its own style sheet.
//
// The package reads nothing from the ledger. httpapi/landing.go and httpapi/eventspage.go
// decide what a visitor sees.
//
// The files, in reading order:
//
//   - pages.go: the data of each page, and what is computed from it; the policy that browsers
//     apply
//   - landing.html, reference.html, events.html, style.css: the templates and their style sheet
package pages
