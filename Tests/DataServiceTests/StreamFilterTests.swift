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

    @Test(
        arguments: [
            "{", "[]", "1", #"{"collections":[]}"#, #"{"collections":["8"]}"#,
            #"{"collections":["0","8"]}"#, #"{"collections":[0]}"#, #"{"collections":"0"}"#,
            #"{"scope":"8"}"#, #"{"sid":1}"#, #"{"uid":"5"}"#,
        ]
    )
    func otherFilterIsRefusedWithItsReason(_ text: String) {
        #expect(refusal(text)?.isEmpty == false)
    }
}
