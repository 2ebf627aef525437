import SyncFrontend
import Testing

@Suite struct RoutePatternTests {
    @Test func patternKeepsItsText() { #expect(RoutePattern("/{db}/").description == "/{db}/") }
}
