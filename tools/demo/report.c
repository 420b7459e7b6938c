/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "tools/demo/demo.h"
#include "tools/common/format.h"

#define BAR 24

int br_demo_result_write(FILE *file, const struct br_demo_result *r)
{
    int n = fprintf(file,
                    "%s\t%s\t%s\t%" PRIu32 " %" PRIu32 " %" PRIu32
                    " %.0f %.0f %.9f %.9f %.1f %" PRIu64 " %" PRIu64 "\n",
                    r->model, r->algorithm, r->network, r->hosts, r->levels, r->rounds, r->bytes,
                    r->whole_bytes, r->seconds, r->first_seconds, r->goodput, r->checked, r->wrong);

    return n < 0 ? br_error(EIO, "cannot write a result: %s", strerror(errno)) : 0;
}

int br_demo_result_read(FILE *file, struct br_demo_result *r)
{
    char line[256];
    int n;

    if (!fgets(line, sizeof line, file))
        return 0;
    memset(r, 0, sizeof *r);
    n = sscanf(line,
               "%23[^\t]\t%23[^\t]\t%23[^\t]\t%" SCNu32 " %" SCNu32 " %" SCNu32
               " %lf %lf %lf %lf %lf %" SCNu64 " %" SCNu64,
               r->model, r->algorithm, r->network, &r->hosts, &r->levels, &r->rounds, &r->bytes,
               &r->whole_bytes, &r->seconds, &r->first_seconds, &r->goodput, &r->checked,
               &r->wrong);
    return n == 13 ? 1 : br_error(EINVAL, "not a line of results: %.60s", line);
}

/* Seconds by the papers' formulas: BML 2(N-1)/(kN) * T_F, ring and parameter server 2(N-1)/N * T_F,
 * where T_F is the time that one link needs for the gradients. */
static double report_theory(const struct br_demo_result *r)
{
    double n = r->hosts, t_f = r->goodput > 0 ? r->bytes / r->goodput : 0;

    return 2 * (n - 1) / n * t_f / (strcmp(r->algorithm, "bml") == 0 ? r->levels : 1);
}

static const char *title_of(const char *algorithm)
{
    return strcmp(algorithm, "bml") == 0      ? "BML"
           : strcmp(algorithm, "ring") == 0   ? "ring"
           : strcmp(algorithm, "server") == 0 ? "parameter server"
                                              : algorithm;
}

/* The result that the others of its model are compared with: the paper compares with parameter
 * servers. */
static const struct br_demo_result *server_of(const struct br_demo_result *results, int count,
                                              const char *model)
{
    for (int i = 0; i < count; i++)
        if (strcmp(results[i].model, model) == 0 && strcmp(results[i].algorithm, "server") == 0)
            return &results[i];
    return NULL;
}

static void draw_bar(double share, int width)
{
    int full = (int)(share * width + 0.5);

    for (int i = 0; i < width; i++)
        fputs(i < full ? "━" : "·", stdout);
}

static void demo_report_print_row(const struct br_demo_result *r,
                                  const struct br_demo_result *server, double longest, bool shaped)
{
    char time[BR_FORMAT_BYTES], theory[BR_FORMAT_BYTES], first[BR_FORMAT_BYTES];

    printf("  %-17s %-22s %9s", title_of(r->algorithm), r->network,
           br_format_time(time, r->seconds * 1e6));
    if (shaped)
        printf(" %9s  %5.2f", br_format_time(theory, report_theory(r) * 1e6),
               r->seconds / report_theory(r));
    printf("  %9s", br_format_time(first, r->first_seconds * 1e6));
    if (server)
        printf("  %5.2f  ", server->seconds / r->seconds);
    draw_bar(r->seconds / longest, BAR);
    printf("\n");
}

static void print_model(const struct br_demo_result *results, int count, int first, bool shaped)
{
    const struct br_demo_result *head = &results[first],
                                *server = server_of(results, count, head->model);
    char bytes[BR_FORMAT_BYTES], whole[BR_FORMAT_BYTES], rate[BR_FORMAT_BYTES],
        t_f[BR_FORMAT_BYTES];
    double longest = 0;

    for (int i = 0; i < count; i++)
        if (strcmp(results[i].model, head->model) == 0 && results[i].seconds > longest)
            longest = results[i].seconds;
    printf("\n  %s, gradients of %s", head->model, br_format_bytes(bytes, head->bytes));
    if (head->bytes < 0.999 * head->whole_bytes)
        printf(" (scaled down from %s, the same part of every layer)",
               br_format_bytes(whole, head->whole_bytes));
    printf("; one link carries %s/s, so T_F = %s\n\n", br_format_bytes(rate, head->goodput),
           br_format_time(t_f, head->bytes / head->goodput * 1e6));
    printf("  %-17s %-22s %9s", "algorithm", "network", "time");
    if (shaped)
        printf(" %9s  %5s", "formula", "ratio");
    printf("  %9s%s\n", "1st layer", server ? "  speed-up" : "");
    for (int i = 0; i < count; i++)
        if (strcmp(results[i].model, head->model) == 0)
            demo_report_print_row(&results[i], server, longest, shaped);
}

void br_demo_print(const struct br_demo_result *results, int count, bool shaped)
{
    uint64_t checked = 0, wrong = 0;

    for (int i = 0; i < count; i++) {
        bool seen = false;

        for (int k = 0; k < i; k++)
            seen = seen || strcmp(results[k].model, results[i].model) == 0;
        if (!seen)
            print_model(results, count, i, shaped);
        checked += results[i].checked;
        wrong += results[i].wrong;
    }
    if (shaped)
        printf("\n  Formulas: BML 2(N-1)/(kN) T_F, ring and parameter server 2(N-1)/N T_F (N "
               "hosts, k NICs "
               "each). T_F is the time\n"
               "  in which one link carries the gradients once, at what it carried alone in this "
               "run.\n");
    if (wrong)
        printf("\n  %" PRIu64 " of %" PRIu64 " values are WRONG.\n\n", wrong, checked);
    else
        printf("\n  All %" PRIu64 " values on all hosts are right.\n\n", checked);
}

void br_demo_say(const char *network, const char *algorithm, const char *model, const char *text)
{
    printf("  %-22s %-9s %-17s %s\n", network, model, title_of(algorithm), text);
    fflush(stdout);
}

void br_demo_progress(const char *network, const char *algorithm, const char *model, double share,
                      const char *what)
{
    printf("\r\033[K  %-22s %-9s %-17s ", network, model, title_of(algorithm));
    draw_bar(share, BAR);
    printf("  %s", what ? what : "");
    fflush(stdout);
}

void br_demo_progress_end(void)
{
    printf("\r\033[K");
    fflush(stdout);
}
