import Bytes
import SyncWire
import Syncing
import Testing

/// Which rows a feed has, by scenes; `FeedWalkTests` has random ones.
@Suite struct FeedTests {
    /// The run of the contract: u1, u2, then three documents and a grant, on Sync Gateway 1.4.1.
    @Test func lateGrantSendsOlderDocumentsBehindIt() {
        var log = ChannelLog()
        log.write(principal: "_user/u1", at: 1)
        log.write(principal: "_user/u2", at: 2)
        log.write("d4", "ch", at: 3)
        log.write("d5", "ch", at: 4)
        log.write("d6", "other", at: 5)
        log.write("grant", "", at: 6)
        let scope = FeedScope(grants(["ch": 6]))
        let page = log.page(scope, since: SequenceToken(5))
        #expect(page.text == "6:3 d4, 6:4 d5")
        #expect(page.last == SequenceToken(4, trigger: 6))
        #expect(page.next == SequenceToken(6))
        #expect(log.page(scope, since: SequenceToken(3, trigger: 6)).text == "6:4 d5")
        #expect(log.page(scope, since: SequenceToken(4, trigger: 6)).text == "")
        let end = log.page(scope, since: SequenceToken(6))
        #expect(end.text == "")
        #expect(end.last == SequenceToken(6))
    }

    @Test func documentInSeveralChannelsIsOneRow() {
        var log = ChannelLog()
        log.write("a", "x y z")
        #expect(log.page(FeedScope(grants(["x": 1, "y": 1]))).text == "1 a")
        // The channel that was granted late has nothing new of it.
        log.write("b", "")
        #expect(log.page(FeedScope(grants(["x": 1, "y": 2]))).text == "1 a")
        #expect(log.page(FeedScope(grants(["y": 2]))).text == "2:1 a")
    }

    @Test func newVersionReplacesTheRow() {
        var log = ChannelLog()
        log.write("a", "x")
        log.write("b", "x")
        log.write("a", "x")
        #expect(log.page(FeedScope(grants(["x": 1]))).text == "2 b, 3 a")
    }

    @Test func documentThatLeavesAChannelHasARemovalRow() {
        var log = ChannelLog()
        log.write("a", "x y")
        log.write("a", "y")
        #expect(log.page(FeedScope(grants(["x": 1]))).text == "2 a -x")
        #expect(log.page(FeedScope(grants(["x": 1, "y": 1]))).text == "2 a -x")
        #expect(log.page(FeedScope(grants(["y": 1]))).text == "2 a")
        // The removal stays where it was.
        log.write("a", "y")
        #expect(log.page(FeedScope(grants(["x": 1]))).text == "2 a -x")
        log.write("a", "x")
        #expect(log.page(FeedScope(grants(["x": 1, "y": 1]))).text == "4 a -y")
    }

    @Test func tombstoneWithoutChannelsIsARemovalOfAll() {
        var log = ChannelLog()
        log.write("a", "_public _jane")
        log.write("a", "", flags: .deleted)
        let page = log.page(FeedScope(grants(["_public": 1, "_jane": 1])))
        #expect(page.text == "2 a -_jane -_public x")
        #expect(page.rows.first?.isRemoval == true)
    }

    @Test func laterGrantOfAnotherChannelSendsRemovedDocumentAgain() {
        var log = ChannelLog()
        log.write("a", "x")
        log.write("a", "y")
        log.write("grant", "")
        let page = log.page(FeedScope(grants(["x": 1, "y": 3])))
        #expect(page.text == "2 a -x, 3:2 a")
        #expect(page.rows.map(\.isRemoval) == [true, false])
    }

    @Test func laterGrantOfAChannelSendsItsRemovalAgain() {
        var log = ChannelLog()
        log.write("a", "x y")
        log.write("a", "y")
        log.write("grant", "")
        let late = grants(["y": 1, "x": 3])
        #expect(log.page(FeedScope(late)).text == "2 a, 3:2 a -x")
        #expect(log.page(FeedScope(late, .third)).text == "2 a")
    }

    @Test func activeOnlyHasNeitherTombstonesNorDocumentsThatLeft() {
        var log = ChannelLog()
        log.write("a", "x")
        log.write("b", "x y")
        log.write("c", "x")
        log.write("a", "x", flags: .deleted)
        log.write("b", "y")
        log.write("c", "")
        var request = FeedRequest(through: 6)
        request.isActiveOnly = true
        #expect(log.page(FeedScope(grants(["x": 1, "y": 1])), request).text == "5 b -x")
        #expect(log.page(FeedScope(grants(["x": 1])), request).text == "")
    }

    @Test func userHasARowOfItsOwnAndNoneOfOthers() {
        var log = ChannelLog()
        log.write(principal: "_user/", at: 1)
        log.write(principal: "_user/joe", at: 2)
        log.write(principal: "_user/jane", at: 3)
        log.write("a", "_jane", at: 4)
        var jane = user("jane", grants(["_jane": 4, "*": 3]))
        jane.sequence = 3
        let scope = FeedScope(
            user: jane,
            access: Access(of: jane, documents: GrantIndex()),
            dialect: .first
        )
        let page = log.page(scope)
        #expect(page.text == "3 _user/jane, 4 a")
        #expect(page.rows.first?.revisions == [])
        #expect(log.page(scope, since: SequenceToken(3)).text == "4 a")
        let names = log.page(FeedScope(administrator: .first)).text
        #expect(names == "1 _user/, 2 _user/joe, 3 _user/jane, 4 a")
        #expect(log.page(FeedScope(administrator: .third)).text == "4 a")
        var guest = Principal(.guest)
        guest.sequence = 1
        let access = Access(of: guest, documents: GrantIndex())
        let own = FeedScope(user: guest, access: access, dialect: .first)
        #expect(log.page(own).text == "1 _user/GUEST")
    }

    @Test func administratorSeesAllOrTheNamedChannels() {
        var log = ChannelLog()
        log.write("a", "x")
        log.write("b", "")
        log.write("a", "y")
        #expect(log.page(FeedScope(administrator: .first)).text == "2 b, 3 a")
        let named = FeedScope(administrator: .first, filter: channels("x z"))
        #expect(log.page(named).text == "3 a -x")
        // The log of `*` has no removals.
        let all = FeedScope(administrator: .first, filter: channels("x *"))
        #expect(log.page(all).text == "2 b, 3 a")
    }

    @Test func starGrantShowsEveryDocument() {
        var log = ChannelLog()
        log.write("a", "x")
        log.write("b", "")
        log.write("c", "*")
        #expect(log.page(FeedScope(grants(["*": 1]))).text == "1 a, 2 b, 3 c")
        #expect(log.page(FeedScope(grants(["*": 2, "x": 1]))).text == "1 a, 2 b, 3 c")
        #expect(log.page(FeedScope(grants(["*": 3]))).text == "3:1 a, 3:2 b, 3 c")
        #expect(log.page(FeedScope(grants(["x": 1]))).text == "1 a")
    }

    @Test func filterKeepsOnlyChannelsOfTheUser() {
        var log = ChannelLog()
        log.write("a", "x")
        log.write("b", "y")
        log.write("c", "z")
        func text(_ user: Principal, _ filter: String) -> String {
            let access = Access(of: user, documents: GrantIndex())
            let scope = FeedScope(
                user: user,
                access: access,
                filter: channels(filter),
                dialect: .first
            )
            return log.page(scope).text
        }
        let some = user("u", grants(["x": 1, "y": 1]))
        #expect(text(some, "y z") == "2 b")
        #expect(text(some, "z") == "")
        #expect(text(some, "*") == "1 a, 2 b")
        // With the channel of all documents, every named channel is the user's.
        #expect(text(user("v", grants(["*": 2])), "x z") == "2:1 a, 3 c")
    }

    @Test func limitEndsAPageWithinLateRows() {
        var log = ChannelLog()
        for name in ["a", "b", "c"] { log.write(name, "x") }
        log.write("d", "y")
        let scope = FeedScope(grants(["x": 4, "y": 1]))
        let first = log.page(scope, limit: 2)
        #expect(first.text == "4:1 a, 4:2 b")
        #expect(first.isLimited)
        #expect(first.next == first.last)
        let second = log.page(scope, since: first.next, limit: 2)
        #expect(second.text == "4:3 c, 4 d")
        #expect(log.page(scope, since: second.next, limit: 2).text == "")
    }

    @Test func rowsAboveTheMarkAreNotSent() {
        var log = ChannelLog()
        log.write("a", "x")
        log.write("b", "x")
        log.write("c", "y")
        let scope = FeedScope(grants(["x": 1, "y": 3]))
        let page = log.page(scope, FeedRequest(through: 1))
        #expect(page.text == "1 a")
        #expect(page.next == SequenceToken(1))
        // A mark below the position of the client takes nothing back.
        let behind = log.page(scope, FeedRequest(since: SequenceToken(2), through: 1))
        #expect(behind.next == SequenceToken(2))
    }

    @Test func lateTombstonesAreSentInOneDialectOnly() {
        var log = ChannelLog()
        log.write("a", "x")
        log.write("a", "x", flags: .deleted)
        log.write("b", "x")
        log.write("b", "")
        log.write("c", "x")
        log.write("grant", "")
        let granted = grants(["x": 6])
        #expect(log.page(FeedScope(granted, .first)).text == "6:2 a x, 6:4 b -x, 6:5 c")
        #expect(log.page(FeedScope(granted, .third)).text == "6:5 c")
    }

    @Test func revocationsAreSentOnRequestInTheDialectOf3() {
        var log = ChannelLog()
        log.write("a", "x")
        log.write("b", "x y")
        log.write("c", "y")
        log.write("revoked", "", at: 5)
        log.write("new", "x", at: 6)
        var user = user("u", grants(["x": 1, "y": 1]))
        let before = Access(of: user, documents: GrantIndex())
        user.channels = grants(["y": 1])
        let after = Access(of: user, documents: GrantIndex())
        user.recordLosses(from: before, to: after, at: 5)
        var request = FeedRequest(since: SequenceToken(3), through: 6)
        request.sendsRevocations = true
        let third = FeedScope(user: user, access: after, dialect: .third)
        #expect(log.page(third, request).text == "5:1 a !")
        let first = FeedScope(user: user, access: after, dialect: .first)
        #expect(log.page(first, request).text == "")
        request.since = .zero
        #expect(log.page(third, request).text == "2 b, 3 c")
        request.since = SequenceToken(1, trigger: 5)
        #expect(log.page(third, request).text == "")
        request.sendsRevocations = false
        request.since = SequenceToken(3)
        #expect(log.page(third, request).text == "")
    }

    @Test func namedDocumentsAreShownIfTheUserHasThem() {
        var log = ChannelLog()
        log.write("a", "x")
        log.write("b", "y")
        log.write("c", "x")
        let scope = FeedScope(grants(["x": 2]))
        let ids = ["c", "a", "b", "none", "a"].map { [UInt8]($0.utf8) }
        let all = FeedPage(documents: ids, FeedRequest(through: 3), of: scope, from: log)
        #expect(all.text == "1 a, 3 c")
        let some = FeedPage(documents: ids, FeedRequest(through: 3, limit: 1), of: scope, from: log)
        #expect(some.text == "1 a")
        #expect(some.isLimited)
    }

    @Test func otherLeavesAreAddedToTheRow() throws {
        var log = ChannelLog()
        log.write("a", "x", flags: [.branched, .deleted])
        var row = try #require(log.page(FeedScope(grants(["x": 1]))).rows.first)
        #expect(row.needsLeaves && row.isDeleted)
        let live = try #require(revision(7))
        let dead = try #require(revision(8))
        row.add(leaves: [(live, false), (dead, true)], isActiveOnly: true)
        #expect(row.revisions.dropFirst() == [live])
        #expect(!row.isDeleted)
    }

    @Test func positionsAreOrderedWithLateRowsBeforeTheirGrant() {
        let ordered = [
            SequenceToken(5), SequenceToken(1, trigger: 6), SequenceToken(5, trigger: 6),
            SequenceToken(6),
            SequenceToken(0, trigger: 7), SequenceToken(7),
        ]
        #expect(ordered.sorted() == ordered)
    }
}
