import Syncing
import Testing

@Suite struct ChannelNameTests {
    @Test func namesAreTextWithoutACommaAndNotEmpty() {
        #expect(ChannelName("news")?.description == "news")
        #expect(ChannelName("") == nil)
        #expect(ChannelName("a,b") == nil)
    }

    @Test func namesAreComparedByBytes() {
        #expect(ChannelName("e\u{301}") != ChannelName("\u{e9}"))
    }
}
