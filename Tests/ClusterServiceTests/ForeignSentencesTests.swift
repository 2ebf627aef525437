import ClusterService
import Testing

/// What another server's refusal may pass on to a client.
@Suite struct ForeignSentencesTests {
    @Test(arguments: [
        (#"["The node is part of a cluster."]"#, "The node is part of a cluster."),
        (#"["One.","Two."]"#, "One. Two."), (#"  [ "Ünïcode." ] "#, "Ünïcode."),
    ])
    func listOfSentencesIsForwarded(_ body: String, _ text: String) {
        #expect(ForeignSentences.text(of: Array(body.utf8)) == text)
    }

    @Test(arguments: [
        "", "secret", "<html>secret</html>", #"{"errors":"secret"}"#, #""secret""#, "[]", "[1]",
        #"["a",{"b":"secret"}]"#, #"["a",null]"#, #"["two\nlines"]"#, #"["\u001b[2J"]"#, #"[""]"#,
        #"["a"] secret"#, #"["a"#, "12", "root:x:0:0:root",
    ])
    func bodyThatIsNoListOfSentencesIsNotForwarded(_ body: String) {
        #expect(ForeignSentences.text(of: Array(body.utf8)) == nil)
    }

    @Test func boundIsOneKibibyte() {
        let longest = "[\"" + String(repeating: "a", count: 1_020) + "\"]"
        #expect(ForeignSentences.text(of: Array(longest.utf8))?.utf8.count == 1_020)
        let longer = "[\"" + String(repeating: "a", count: 1_021) + "\"]"
        #expect(ForeignSentences.text(of: Array(longer.utf8)) == nil)
        #expect(ForeignSentences.text(of: [UInt8(ascii: "["), 0xff, UInt8(ascii: "]")]) == nil)
    }

    @Test func refusalOfThePeerPortIsBoundedToo() {
        #expect(
            ForeignSentences.text(ofRefusal: "The node is provisioned already.").contains("already")
        )
        for text in ["", "a\nb", String(repeating: "a", count: 1_025)] {
            #expect(ForeignSentences.text(ofRefusal: text) == "It refused, with an invalid answer.")
        }
    }
}
