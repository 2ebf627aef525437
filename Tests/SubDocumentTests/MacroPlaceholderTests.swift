import SubDocument
import Testing
import Vocabulary
import Wire

/// Macros beside texts that look like what stands for them while the paths are applied.
@Suite struct MacroPlaceholderTests {
    private static let zeros = "\"\(MacroPatch.placeholder)\""
    private static let cas = #""${Mutation.CAS}""#

    /// The attribute `a` and the number of patches, if `text` is beside a macro of the CAS.
    private func expanded(_ text: String) -> (attribute: String?, patches: Int) {
        let specs: [Spec] = [
            .attribute(.dictionaryUpsert, "a", "{\"text\":\"\(text)\"}"), .macro("a.cas", Self.cas),
        ]
        guard case .version(let version, _, let patches) = mutate(specs, .makesDocument) else {
            return (nil, 0)
        }
        return (version.attributes["a"], patches.count)
    }

    private func kept(_ text: String) -> String {
        "{\"text\":\"\(text)\",\"cas\":\(Self.zeros)}"
    }

    /// A document may have any text, also one that looks like a placeholder.
    @Test func textLikeAPlaceholderIsKeptUnchanged() {
        let ats = String(repeating: "@", count: 17)
        let marks = ["@0000000", "@000000", "@00000", "@0", ats + "1", ats + ats]
        for text in marks + ["@0000000@1000000@2000000", String(repeating: "@0", count: 90)] {
            let (attribute, patches) = expanded(text)
            #expect(attribute == kept(text) && patches == 1, "\(text)")
        }
    }

    @Test func macroIsExpandedBesideEveryTwoCharacterMark() {
        let characters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
        let text = characters.map { first in characters.map { "@\(first)\($0)" }.joined() }
        let (attribute, patches) = expanded(text.joined())
        #expect(attribute == kept(text.joined()) && patches == 1)
    }

    /// A search for each candidate would take hours.
    @Test func macroIsExpandedBesideHalfAMillionSimilarTexts() {
        let ats = String(repeating: "@", count: 11)
        let text = (1_000_000..<1_500_000).map { "\(ats)\($0)" }.joined()
        let (attribute, patches) = expanded(text)
        #expect(attribute == kept(text) && patches == 1)
    }

    @Test func sixteenMacrosHaveTheirPatches() {
        let macros = (0..<16).map { number in
            Spec.macro("a\(number)", number % 2 == 0 ? Self.cas : #""${Mutation.seqno}""#)
        }
        guard case .version(let version, _, let patches) = mutate(macros, .makesDocument) else {
            Issue.record("the mutation failed")
            return
        }
        #expect(version.attributes.values.allSatisfy { $0 == Self.zeros })
        #expect(patches.map(\.kind) == (0..<16).map { $0 % 2 == 0 ? .cas : .seqno })
    }

    @Test func keyWithPlaceholderAcrossBackticksIsKept() {
        let ats = String(repeating: "@", count: 10)
        let path = "b.\(ats)`@`0000000"
        let specs: [Spec] = [
            .macro("a", Self.cas), .attribute(.dictionaryUpsert, path, "1", .makesParents),
        ]
        guard case .version(let version, _, let patches) = mutate(specs, .makesDocument) else {
            Issue.record("the mutation failed")
            return
        }
        #expect(version.attributes == ["a": Self.zeros, "b": #"{"\#(ats)@0000000":1}"#])
        #expect(patches.count == 1)
    }
}
