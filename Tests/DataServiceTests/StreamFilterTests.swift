import Bytes
import DataService
import Testing

/// The filters of stream requests: the default collection has every document.
@Suite struct StreamFilterTests {
    private func refusal(_ text: String) -> String? {
        Array(text.utf8).withUnsafeBytes { StreamFilter.refusal(of: ByteView($0)) }
    }

    @Test(
        arguments: [
            "", "{}", #"{"purge_seqno":"7"}"#, #"{"collections":["0"]}"#, #"{"scope":"0"}"#,
            #"{"uid":"0","collections":["0"]}"#,
        ]
    )
    func filterThatSelectsAllChangesIsAccepted(_ text: String) {
        #expect(refusal(text) == nil)
    }

    @Test(arguments: ["{", "[]", "1"])
    func filterThatIsNoObjectIsRefused(_ text: String) {
        #expect(refusal(text) == "The filter of a stream has to be a JSON object.")
    }

    @Test(
        arguments: [
            (#"{"collections":[]}"#, "collections"), (#"{"collections":["8"]}"#, "collections"),
            (#"{"collections":["0","8"]}"#, "collections"),
            (#"{"collections":[0]}"#, "collections"), (#"{"collections":"0"}"#, "collections"),
            (#"{"scope":"8"}"#, "scope"), (#"{"sid":1}"#, "sid"), (#"{"uid":"5"}"#, "uid"),
            (#"{"collections":["0"],"scope":"8","uid":"5"}"#, "scope"),
        ]
    )
    func filterThatSelectsLessIsRefusedWithItsFirstMember(_ text: String, member: String) {
        let reason = "Filters of streams need collections, which are not supported: \(member)."
        #expect(refusal(text) == reason)
    }
}
